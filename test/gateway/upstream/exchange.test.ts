import { expect } from "chai";
import { Pool } from "undici";
import { type Exchange, type ExchangeError, startExchange } from "../../../gateway/upstream/exchange.ts";
import {
  chunk,
  close,
  end,
  hang,
  head,
  hold,
  raw,
  reset,
  type Script,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../../support/scripted-upstream.ts";

interface Run {
  readonly exchange: Exchange;
  readonly result: Promise<{
    readonly status: number;
    readonly text: string;
    readonly error: ExchangeError | undefined;
  }>;
}

describe("an exchange with a provider", () => {
  let upstream: ScriptedUpstream | undefined;
  let pool: Pool;

  afterEach(async () => {
    await pool.destroy();
    await upstream?.close();
    upstream = undefined;
  });

  async function open(script: Script | ((index: number) => Script)): Promise<void> {
    upstream = await startScriptedUpstream(typeof script === "function" ? (_request, index) => script(index) : script);
    pool = new Pool(upstream.url, { maxHeaderSize: 16_384, connect: { timeout: 500 } });
  }

  function run(
    onData: (chunk: Buffer, exchange: Exchange) => boolean = () => true,
    timeouts = { head: 2000, idle: 2000 },
  ): Run {
    const { promise, resolve } = Promise.withResolvers<Awaited<Run["result"]>>();
    let status = 0;
    let text = "";
    const exchange = startExchange(
      pool,
      {
        method: "POST",
        path: "/x",
        headers: {},
        body: Buffer.from("{}"),
        headTimeoutMs: timeouts.head,
        idleTimeoutMs: timeouts.idle,
      },
      {
        onHead: (code) => {
          status = code;
        },
        onData: (piece) => {
          text += piece.toString();
          return onData(piece, exchange);
        },
        onEnd: () => resolve({ status, text, error: undefined }),
        onError: (error) => resolve({ status, text, error }),
      },
    );
    return { exchange, result: promise };
  }

  it("hands the answer over as it comes", async () => {
    await open([head(200), chunk("one"), chunk("two"), end]);
    expect(await run().result).to.deep.equal({ status: 200, text: "onetwo", error: undefined });
  });

  for (const [what, script, failure, timeouts] of [
    ["a reset", [reset], "cut", undefined],
    ["a close in the middle", [head(200), chunk("x"), close], "cut", undefined],
    ["no head in time", [hang], "head_timeout", { head: 200, idle: 2000 }],
    ["silence in the body", [head(200), chunk("x"), hang], "idle_timeout", { head: 2000, idle: 200 }],
    ["a head beyond the bound", [head(200, { "x-long": "a".repeat(40_000) }), end], "too_large", undefined],
    ["something that is not HTTP", [raw("SSH-2.0\r\n\r\n"), close], "protocol", undefined],
  ] as const) {
    it(`calls ${what} ${failure}`, async () => {
      await open([...script]);
      expect((await run(undefined, timeouts).result).error?.failure).to.equal(failure);
    });
  }

  it("calls a port where nobody listens unreachable", async () => {
    await open([end]);
    const { url } = upstream as ScriptedUpstream;
    await upstream?.close();
    upstream = undefined;
    pool = new Pool(url);
    expect((await run().result).error?.failure).to.equal("unreachable");
  });

  it("pauses while its reader is busy, without losing a byte", async () => {
    await open([head(200), ...Array.from({ length: 50 }, (_, index) => chunk(`${index},`)), end]);
    let paused = 0;
    const { result } = run((_chunk, exchange) => {
      paused += 1;
      setImmediate(() => exchange.resume());
      return false;
    });
    expect((await result).text).to.equal(Array.from({ length: 50 }, (_, index) => `${index},`).join(""));
    expect(paused).to.be.greaterThan(0);
  });

  it("waits for the rest of a chunk that comes in two packets, where its reader goes on at once", async () => {
    const release = Promise.withResolvers<undefined>();
    await open([head(200), raw("6\r\none"), hold(release.promise), raw("two\r\n"), end]);
    let pieces = 0;
    const { result } = run((_piece, exchange) => {
      pieces += 1;
      // The packet is not there yet: to be told of nothing, again and again, would leave no time for it to come.
      if (pieces > 100) exchange.abort();
      else queueMicrotask(() => exchange.resume());
      setImmediate(() => release.resolve(undefined));
      return false;
    });
    expect(await result).to.deep.equal({ status: 200, text: "onetwo", error: undefined });
    expect(pieces, "each with bytes in it").to.equal(2);
  });

  it("is aborted while it has no connection yet, and then sends nothing", async () => {
    const release = Promise.withResolvers<undefined>();
    await open((index) =>
      index === 0 ? [hold(release.promise), head(200, { "content-length": "0" })] : [head(200), end],
    );
    const { url } = upstream as ScriptedUpstream;
    pool = new Pool(url, { connections: 1 });
    const first = run();
    await upstream?.request(0);
    const second = run();
    second.exchange.abort();
    expect((await second.result).error).to.include({ failure: "aborted", wasUnsent: true });
    release.resolve(undefined);
    await first.result;
    const third = run();
    await third.result;
    expect(upstream?.requests, "the aborted one was never sent").to.have.length(2);
  });

  it("is aborted while paused, and its connection goes with it", async () => {
    await open([head(200), chunk("x"), hang]);
    const { exchange, result } = run(() => false);
    const request = await upstream?.request(0);
    await new Promise(setImmediate);
    exchange.abort();
    expect((await result).error).to.include({ failure: "aborted", wasUnsent: false });
    await request?.gone;
  });

  it("ends once, whatever is done to it afterwards", async () => {
    await open([head(200), end]);
    const { exchange, result } = run();
    await result;
    exchange.abort();
    exchange.resume();
    exchange.pause();
  });

  it("knows a kept connection that was closed under it from a provider that is broken", async () => {
    await open((index) => (index === 0 ? [head(200, { "content-length": "0" })] : [close]));
    const { url } = upstream as ScriptedUpstream;
    pool = new Pool(url, { connections: 1 });
    expect((await run().result).error).to.equal(undefined);
    const second = await run().result;
    expect(second.error).to.include({ failure: "cut", wasReused: true });
    const third = await run().result;
    expect(third.error, "a fresh connection").to.include({ failure: "cut", wasReused: false });
  });
});
