import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ForeignJournalError } from "../../chain/journal-binding.ts";
import { WrongChainError } from "../../chain/verify.ts";
import { type RunningGateway, startGateway } from "../../gateway/start.ts";
import type { GatewaySettings } from "../../gateway/settings.ts";
import { startAnvil, type TestChain } from "../support/chain.ts";
import { deployForTest } from "../support/deployment.ts";
import { nextThread } from "../support/next-thread.ts";
import { until } from "../support/until.ts";
import { testSettings } from "./support/test-settings.ts";

describe("a gateway at its start", () => {
  let folder: string;
  let gateway: RunningGateway | undefined;
  const chains: TestChain[] = [];
  let fakeNode: Server | undefined;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-gateway-"));
  });

  afterEach(async () => {
    await gateway?.close(0);
    gateway = undefined;
    for (const chain of chains.splice(0)) await chain.stop();
    fakeNode?.closeAllConnections();
    fakeNode?.close();
    fakeNode = undefined;
    await rm(folder, { recursive: true });
  });

  function settings(rpcUrl: string, target?: GatewaySettings["chain"]["target"]): GatewaySettings {
    const { chain, ...rest } = testSettings();
    return { ...rest, chain: { ...chain, rpcUrl, dataDir: folder, ...(target === undefined ? {} : { target }) } };
  }

  it("is degraded, not dead, while its RPC is down, and serves as soon as that is up", async () => {
    const first = await startAnvil();
    chains.push(first);
    // The same deployer on a fresh chain gives the same addresses: they are known before the second chain is there.
    const target = await deployForTest(first);
    const port = Number(new URL(first.rpcUrl).port);
    await first.stop();
    chains.pop();
    gateway = await startGateway(settings(first.rpcUrl, target));
    expect(gateway.notReady()).to.match(/chain/);
    expect((await fetch(`${gateway.url}/healthz`)).status).to.equal(200);
    expect((await fetch(`${gateway.url}/readyz`)).status).to.equal(503);
    const refused = await fetch(`${gateway.url}/v1/models`);
    expect(refused.status).to.equal(503);
    expect(refused.headers.get("retry-after")).to.equal("5");
    expect(((await refused.json()) as { error: { code: string } }).error.code).to.equal("chain_unavailable");
    const second = await startAnvil({ port });
    chains.push(second);
    await deployForTest(second);
    await until("it is ready", () => gateway?.notReady() === undefined, 20_000);
    expect((await fetch(`${gateway.url}/readyz`)).status).to.equal(200);
    const list = (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: unknown[] };
    expect(list.data).to.deep.equal([]);
  });

  it("refuses the journal of another deployment, whose jobs would seem never to have been posted, and leaves it as it is", async () => {
    const chain = await startAnvil();
    chains.push(chain);
    const [mine, other] = [await deployForTest(chain), await deployForTest(chain)];
    gateway = await startGateway(settings(chain.rpcUrl, mine));
    await gateway.close(0);
    gateway = undefined;
    const failure: unknown = await startGateway(settings(chain.rpcUrl, other)).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(ForeignJournalError);
    expect((failure as Error).message)
      .to.include(folder)
      .and.to.include(mine.escrow)
      .and.to.include(other.escrow);
    gateway = await startGateway(settings(chain.rpcUrl, mine));
    await until("it is ready", () => gateway?.notReady() === undefined, 20_000);
  });

  it("serves nothing any more, and says so to whoever runs it, when its journal is lost", async () => {
    let fatal: Error | undefined;
    const thread = nextThread();
    gateway = await startGateway(settings("http://127.0.0.1:9"), {
      onFatal: (error) => {
        fatal = error;
      },
    });
    await (await thread).terminate();
    await until("it is told", () => fatal);
    const ready = await fetch(`${gateway.url}/readyz`);
    expect(ready.status).to.equal(503);
    expect(await ready.text()).to.include("the journal is lost");
  });

  it("refuses addresses without code loudly, naming the address, and lets go of everything", async () => {
    fakeNode = createServer((request, response) => {
      let text = "";
      request.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      request.on("end", () => {
        const { id, method } = JSON.parse(text) as { id: number; method: string };
        const result = method === "eth_chainId" ? "0x7a69" : "0x";
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
      });
    });
    await new Promise<void>((resolve) => {
      fakeNode?.listen(0, "127.0.0.1", resolve);
    });
    const url = `http://127.0.0.1:${(fakeNode.address() as AddressInfo).port}`;
    for (const _attempt of [1, 2]) {
      // The second start shows that the first left neither its port nor its journal behind.
      const failure: unknown = await startGateway(settings(url)).catch((error: unknown) => error);
      expect(failure).to.be.instanceOf(WrongChainError);
      expect((failure as Error).message).to.match(/no contract.*0x5FbDB2315678afecb367f032d93F642f64180aa3/i);
    }
  });
});
