import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { privateKeyToAccount } from "viem/accounts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { providerStatusTypedData } from "../../protocol/messages.ts";
import { formatSse, sseContentType } from "../../protocol/sse.ts";
import { until } from "../support/until.ts";
import { providerRecord, testModel } from "./routing/support/registry.ts";
import { FakeChain } from "./support/fake-chain.ts";
import { startTestGateway, type TestGateway } from "./support/test-gateway.ts";
import { testTarget } from "./support/test-settings.ts";

const operator = privateKeyToAccount(`0x${"51".repeat(32)}`);
const stranger = privateKeyToAccount(`0x${"52".repeat(32)}`);
const domain = { chainId: testTarget.chainId, escrow: testTarget.escrow };

async function statusFrame(models: readonly string[], issuedAt: number, signer = operator): Promise<string> {
  const body = JSON.stringify({
    provider: operator.address,
    issuedAt,
    draining: false,
    maxConcurrentJobs: 2,
    running: 0,
    models: models.map((model) => ({ model, generation: "g", running: 0, maxInputTps: 7 })),
  });
  const message = { provider: operator.address, issuedAt, bodyHash: bodyHash(body) };
  const signature = await signer.signTypedData(providerStatusTypedData(domain, message));
  return formatSse({ event: "status", data: JSON.stringify({ body, signature }) });
}

describe("what the operator's metrics show of a provider's status", () => {
  let server: Server;
  let place: TestGateway;
  let frames: string[];

  beforeEach(async () => {
    frames = [];
    server = createServer((_request, response) => {
      response.writeHead(200, { "content-type": sseContentType });
      response.write(frames.join(""));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });

  afterEach(async () => {
    await place.close();
    server.closeAllConnections();
    server.close();
  });

  const open = async (): Promise<void> => {
    const chain = new FakeChain();
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    chain.setProvider({ ...providerRecord({ address: operator.address, maxConcurrentJobs: 2 }), endpoint });
    place = await startTestGateway({ chain });
    chain.publish();
  };
  const lines = async (start: string): Promise<string[]> => {
    const text = await (await fetch(`${place.url}/metrics`)).text();
    return text.split("\n").filter((line) => line.startsWith(start));
  };
  const shown = async (start: string): Promise<string[]> =>
    await until(`a line of ${start}`, async () => {
      const found = await lines(start);
      return found.length > 0 ? found : undefined;
    });

  it("is of the models that it offers: names that it makes up would be series without end", async () => {
    frames = [
      await statusFrame([testModel, ...Array.from({ length: 63 }, (_, index) => `made up ${index}`)], Date.now()),
    ];
    await open();
    const name = "t4t_provider_max_input_tps{";
    expect(await shown(name)).to.deep.equal([`${name}provider="${operator.address}",model="${testModel}"} 7`]);
    expect(await lines("t4t_provider_running{")).to.have.length(1);
  });

  it("counts what was not believed, and says why, so that a forger or a wrong clock is seen", async () => {
    frames = [await statusFrame([testModel], Date.now(), stranger)];
    await open();
    const name = "t4t_gateway_statuses_refused_total{";
    expect(await shown(name)).to.deep.equal([`${name}fault="wrong_signer"} 1`]);
    expect(await lines("t4t_provider_max_input_tps{")).to.deep.equal([]);
  });
});
