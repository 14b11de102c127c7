import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { expect } from "chai";
import * as fc from "fast-check";
import { backoffDelay } from "../../chain/backoff.ts";
import { type ChainConnection, openChain } from "../../chain/rpc.ts";
import {
  ChainUnavailableError,
  chainUnavailableIn,
  looksReverted,
  nodeMessage,
  revertDataIn,
} from "../../chain/rpc-errors.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { startAnvil, startHardhatChain, type TestChain } from "../support/chain.ts";
import { countingRpcProxy, type RpcFault, type RpcProxy } from "../support/rpc-proxy.ts";

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => expect.fail("resolved"),
    (error: unknown) => error,
  );
}

describe("a connection to a node", function () {
  this.timeout(30_000);
  let chain: TestChain;
  let proxy: RpcProxy;
  const connections: ChainConnection[] = [];

  before(async () => {
    chain = await startAnvil();
    proxy = await countingRpcProxy(chain.rpcUrl);
  });

  after(async () => {
    await proxy.stop();
    await chain.stop();
  });

  beforeEach(() => proxy.reset());

  afterEach(async () => {
    proxy.setFault(undefined);
    for (const connection of connections.splice(0)) await connection.close();
  });

  function open(
    url: string,
    options: { readonly attempts?: number; readonly timeoutMs?: number } = {},
  ): ChainConnection {
    const connection = openChain({
      url,
      clock: systemClock,
      random: Math.random,
      backoffBaseMs: 2,
      backoffMaxMs: 10,
      ...options,
    });
    connections.push(connection);
    return connection;
  }

  /** A fault for the first so many calls. */
  function failFirst(count: number, fault: RpcFault): void {
    let left = count;
    proxy.setFault(() => (left-- > 0 ? fault : undefined));
  }

  for (const fault of [
    { kind: "http", status: 429 },
    { kind: "http", status: 502 },
    { kind: "drop" },
    { kind: "drop-answer" },
    { kind: "error", code: -32005, message: "limit exceeded" },
  ] as const satisfies readonly RpcFault[]) {
    it(`asks again after ${JSON.stringify(fault)}, so that a bad moment of the node is nobody's error`, async () => {
      failFirst(2, fault);
      expect(await open(proxy.url).client.getChainId()).to.equal(31_337);
      expect(proxy.count("eth_chainId")).to.equal(3);
    });
  }

  it("gives up after its attempts with a typed error that says what was asked, and of whom", async () => {
    proxy.setFault(() => ({ kind: "http", status: 503 }));
    const error = await rejection(open(proxy.url, { attempts: 3 }).client.getChainId());
    expect(chainUnavailableIn(error)).to.include({ method: "eth_chainId", attempts: 3 });
    expect(nodeMessage(error)).to.match(/127\.0\.0\.1.*did not answer eth_chainId/);
    expect(proxy.count("eth_chainId")).to.equal(3);
  });

  it("does not insist where the endpoint refuses us", async () => {
    proxy.setFault(() => ({ kind: "http", status: 401 }));
    expect(chainUnavailableIn(await rejection(open(proxy.url).client.getChainId()))?.attempts).to.equal(1);
  });

  it("sends a transaction once, whatever happens: only the queue may decide to send again", async () => {
    proxy.setFault(() => ({ kind: "drop-answer" }));
    const sending = open(proxy.url).client.request({ method: "eth_sendRawTransaction", params: ["0x00"] });
    expect(await rejection(sending)).to.be.instanceOf(ChainUnavailableError);
    expect(proxy.count("eth_sendRawTransaction")).to.equal(1);
  });

  it("ends a call that is never answered", async () => {
    proxy.setFault(() => ({ kind: "hang" }));
    const error = await rejection(open(proxy.url, { attempts: 1, timeoutMs: 60 }).client.getChainId());
    expect(String(error)).to.match(/no answer within 60 ms|timeout/i);
  });

  it("keeps the path and the key of the URL out of its errors", async () => {
    proxy.setFault(() => ({ kind: "http", status: 500 }));
    const error = await rejection(
      open(`${proxy.url}/v3/secret-api-key?token=other-secret`, { attempts: 1 }).client.getChainId(),
    );
    for (let link: unknown = error; link instanceof Error; link = link.cause)
      expect(`${link.message} ${JSON.stringify(link)}`).not.to.include("secret");
  });

  it("passes on what the node itself answers, at once", async () => {
    const error = await rejection(open(proxy.url).client.request({ method: "eth_nonsense" as "eth_chainId" }));
    expect(chainUnavailableIn(error)).to.equal(undefined);
    expect(proxy.total).to.equal(1);
  });

  it("works over a WebSocket, many calls at once, and again after the node was restarted", async () => {
    const first = await startAnvil();
    const { client } = open(first.wsUrl, { attempts: 3 });
    const blocks = await Promise.all(Array.from({ length: 50 }, async () => await client.getBlockNumber()));
    expect(new Set(blocks)).to.deep.equal(new Set([0n]));
    await first.stop();
    expect(chainUnavailableIn(await rejection(client.getChainId()))?.attempts).to.equal(3);
    const second = await startAnvil({ port: Number(new URL(first.wsUrl).port) });
    expect(await client.getChainId()).to.equal(31_337);
    const error = await rejection(client.request({ method: "eth_nonsense" as "eth_chainId" }));
    expect(chainUnavailableIn(error), "an answer of the node is passed on").to.equal(undefined);
    await second.stop();
  });

  it("opens a new WebSocket when the old one has gone silent, as no close ever comes from a host that is gone", async () => {
    const { port, hostname } = new URL(chain.rpcUrl);
    const pairs: (readonly [Socket, Socket])[] = [];
    const relay = createTcpServer((outside) => {
      const inside = connect(Number(port), hostname);
      pairs.push([outside, inside]);
      for (const socket of [outside, inside]) socket.on("error", () => undefined);
      outside.pipe(inside).pipe(outside);
    });
    await new Promise<void>((resolve) => {
      relay.listen(0, "127.0.0.1", resolve);
    });
    const url = `ws://127.0.0.1:${(relay.address() as AddressInfo).port}`;
    const { client } = open(url, { attempts: 2, timeoutMs: 300 });
    expect(await client.getChainId()).to.equal(31_337);
    for (const [outside, inside] of pairs) {
      inside.unpipe(outside);
      outside.unpipe(inside);
    }
    expect(await client.getChainId()).to.equal(31_337);
    for (const pair of pairs) for (const socket of pair) socket.destroy();
    relay.close();
  });

  it("does not fail at opening when nobody is there", async () => {
    for (const url of ["http://127.0.0.1:9", "ws://127.0.0.1:9"]) {
      const error = await rejection(open(url, { attempts: 1, timeoutMs: 500 }).client.getChainId());
      expect(chainUnavailableIn(error), String(error)).to.be.instanceOf(ChainUnavailableError);
    }
  });

  it("takes HTML, half an answer and an empty body for an unreachable node", async () => {
    const bodies = ["<html>hello</html>", '{"jsonrpc":"2.0","id":1,"res', "", "[]", '"text"'];
    const server: Server = createServer((_request, response) => response.end(bodies[0]));
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    for (; bodies.length > 0; bodies.shift()) {
      const error = await rejection(open(`http://127.0.0.1:${port}`, { attempts: 1 }).client.getChainId());
      expect(chainUnavailableIn(error), bodies[0]).to.be.instanceOf(ChainUnavailableError);
    }
    server.closeAllConnections();
    server.close();
  });

  it("finds revert data in the errors of both test chains, and calls a revert a revert", async () => {
    const hardhat = await startHardhatChain();
    // Reverts with four bytes of data: PUSH4 deadbeef, MSTORE, REVERT(28, 4).
    const data = "0x63deadbeef6000526004601cfd";
    for (const url of [chain.rpcUrl, hardhat.rpcUrl]) {
      const error = await rejection(open(url).client.request({ method: "eth_call", params: [{ data }, "latest"] }));
      expect(revertDataIn(error)).to.equal("0xdeadbeef");
      expect(looksReverted(error)).to.equal(true);
    }
    await hardhat.stop();
  });
});

describe("backoffDelay", () => {
  it("grows, stays within half and all of its ceiling, and never passes the bound", () => {
    fc.assert(
      fc.property(fc.nat(100), fc.double({ min: 0, max: 0.999, noNaN: true }), (attempt, share) => {
        const delay = backoffDelay(attempt, { baseMs: 100, maxMs: 5_000 }, () => share);
        const ceiling = Math.min(5_000, 100 * 2 ** attempt);
        expect(delay).to.be.within(ceiling / 2, ceiling);
      }),
    );
  });
});
