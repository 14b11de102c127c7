import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "chai";
import { systemClock } from "../../chain/system-clock.ts";
import type { Clock } from "../../protocol/clock.ts";
import { chunk, end, hold } from "../support/scripted-upstream.ts";
import { until } from "../support/until.ts";
import { chatBody, jobAtProvider, onChain, readStream, untilOnChain } from "./support/answers.ts";
import { type Market, type PostedJob, startMarket } from "./support/market.ts";
import { startNode, type TestNode } from "./support/node.ts";
import {
  delta,
  doneChunk,
  type ScriptedBackend,
  startScriptedBackend,
  stopChunk,
  streamHead,
  usageChunk,
} from "./support/scripted-backend.ts";

describe("a provider whose journal cannot be written as an answer ends", function () {
  this.timeout(60_000);
  let market: Market;
  let backend: ScriptedBackend;

  before(async () => {
    market = await startMarket();
    backend = await startScriptedBackend([]);
  });

  after(async () => {
    await backend.close();
    await market.stop();
  });

  /** Real time but for some delays. */
  function clockWith(changed: (delayMs: number) => number): Clock {
    return { ...systemClock, after: (delayMs, callback) => systemClock.after(changed(delayMs), callback) };
  }

  /** Runs a job whose end the journal refuses, as another program holds its file; the file is free again when it resolves. */
  async function endUnwritten(clock: Clock): Promise<{ readonly node: TestNode; readonly job: PostedJob }> {
    const key = await market.providerKey();
    const node = await startNode({ market, backendUrl: backend.url, key, dependencies: { clock } });
    const release = Promise.withResolvers<void>();
    backend.use([
      streamHead,
      hold(release.promise),
      chunk(delta("one") + stopChunk + usageChunk(7, 1) + doneChunk),
      end,
    ]);
    const job = await market.client.post(node.address, { unsignedLimit: 10n });
    const response = await market.client.request(node.url, job, chatBody({ stream: true }));
    await until("it is accepted", async () => (await jobAtProvider(node, job)).status === "accepted");
    const other = new DatabaseSync(join(node.dataDir, "provider.sqlite"));
    other.exec("PRAGMA busy_timeout = 2000");
    other.exec("BEGIN IMMEDIATE");
    release.resolve();
    // The answer ends when the journal has given up waiting for the file.
    await readStream(response);
    other.exec("ROLLBACK");
    other.close();
    return { node, job };
  }

  it("claims the answer before it stops, as the next process would know nothing of it", async () => {
    const { node, job } = await endUnwritten(clockWith((delayMs) => (delayMs === 500 ? 3_600_000 : delayMs)));
    await node.close();
    await untilOnChain(market, job, onChain.completed);
  });

  it("goes on draining when a job cannot be given back, as every other answer would be cut and never claimed", async () => {
    const key = await market.providerKey();
    const environment = { T4T_DRAIN_SECONDS: "30" };
    const node = await startNode({ market, backendUrl: backend.url, key, environment });
    const release = Promise.withResolvers<void>();
    backend.use([
      streamHead,
      hold(release.promise),
      chunk(delta("one") + stopChunk + usageChunk(7, 1) + doneChunk),
      end,
    ]);
    const job = await market.client.post(node.address, { unsignedLimit: 10n });
    const unbegun = await market.client.post(node.address);
    const response = await market.client.request(node.url, job, chatBody({ stream: true }));
    await until("it is accepted", async () => (await jobAtProvider(node, job)).status === "accepted");
    await until("the other is known", async () => (await jobAtProvider(node, unbegun)).status === "posted");
    const other = new DatabaseSync(join(node.dataDir, "provider.sqlite"));
    other.exec("PRAGMA busy_timeout = 2000");
    other.exec("BEGIN IMMEDIATE");
    let isClosed = false;
    const closed = node.close().finally(() => {
      isClosed = true;
    });
    closed.catch(() => undefined);
    const faults = async () => await (await fetch(`${node.url}/metrics`)).text();
    await until("the journal has refused", async () => isClosed || /where="drain"\} 1/.test(await faults()), 40_000);
    other.exec("ROLLBACK");
    other.close();
    release.resolve();
    expect((await readStream(response)).isCut).to.equal(false);
    await closed;
    await untilOnChain(market, job, onChain.completed);
    await untilOnChain(market, unbegun, onChain.declined);
  });

  it("is not taken for one that has lost the answer, however often it looks for such", async () => {
    const { node, job } = await endUnwritten(
      clockWith((delayMs) => (delayMs === 60_000 ? 50 : delayMs === 500 ? 2_000 : delayMs)),
    );
    try {
      await until("it is written", async () => (await jobAtProvider(node, job)).status !== "accepted");
    } finally {
      await node.close();
    }
    await untilOnChain(market, job, onChain.completed);
  });
});
