import { expect } from "chai";
import { gatewaySettingsShape, readGatewaySettings } from "../../gateway/settings.ts";
import { SettingsError } from "../../protocol/settings.ts";
import { providerSettingsShape, readProviderSettings } from "../../provider/settings/provider-settings.ts";

/** Faults that name a variable which the program calls unknown, when it is given every variable of the other program. */
async function unknownOf(read: () => unknown): Promise<readonly string[]> {
  try {
    await read();
    return [];
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.faults.filter(({ message }) => message.includes("is not a setting")).map(({ variable }) => variable);
  }
}

/** An environment in which every variable of a shape is set, to whatever: only its name counts here. */
function allOf(shape: object): Record<string, string> {
  return Object.fromEntries(Object.keys(shape).map((name) => [name, "x"]));
}

describe("one environment file for all programs", () => {
  it("is no fault to the provider node, whatever it holds for the gateway", async () => {
    expect(await unknownOf(async () => await readProviderSettings(allOf(gatewaySettingsShape)))).to.deep.equal([]);
  });

  it("is no fault to the gateway, whatever it holds for the provider node", async () => {
    expect(await unknownOf(async () => await readGatewaySettings(allOf(providerSettingsShape)))).to.deep.equal([]);
  });
});
