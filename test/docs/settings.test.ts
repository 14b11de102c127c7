import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { gatewaySettingsShape } from "../../gateway/settings.ts";
import { providerSettingsShape } from "../../provider/settings/provider-settings.ts";

describe("docs/settings.md", () => {
  it("names every variable of gateway and provider, and none that does not exist", async () => {
    const page = await readFile(new URL("../../docs/settings.md", import.meta.url), "utf8");
    const rows = new Set([...page.matchAll(/^\| `(T4T_[A-Z_]+)` \|/gm)].map(([, name]) => name));
    const variables = new Set([...Object.keys(gatewaySettingsShape), ...Object.keys(providerSettingsShape)]);
    expect([...rows]).to.have.members([...variables]);
  });

  it("gives the defaults that the programs have", async () => {
    const page = await readFile(new URL("../../docs/settings.md", import.meta.url), "utf8");
    const shapes = { ...gatewaySettingsShape, ...providerSettingsShape };
    for (const [, name, shown] of page.matchAll(/^\| `(T4T_[A-Z_]+)` \| ([^|]*) \|/gm)) {
      const schema = shapes[name as keyof typeof shapes];
      const parsed = schema.safeParse(undefined);
      if (!parsed.success || parsed.data === undefined) continue;
      expect((shown ?? "").replaceAll("`", "").trim(), name).to.equal(String(parsed.data));
    }
  });
});
