import { expect } from "chai";
import { encodeFunctionData } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { nextThread } from "../support/next-thread.ts";
import { countingRpcProxy } from "../support/rpc-proxy.ts";
import { chunk, end, hang, hold } from "../support/scripted-upstream.ts";
import { until } from "../support/until.ts";
import {
  chatBody,
  errorCode,
  jobAtProvider,
  onChain,
  readStream,
  runJob,
  type SeenStream,
  untilOnChain,
} from "./support/answers.ts";
import { startMainNode } from "./support/child-node.ts";
import { eventsOf, jobOnChain, type Market, providerOnChain, startMarket } from "./support/market.ts";
import { newDataDir, nodeEnvironment, startNode, type TestNode, writeEndpoints } from "./support/node.ts";
import {
  delta,
  doneChunk,
  goodStream,
  type ScriptedBackend,
  startScriptedBackend,
  stopChunk,
  streamHead,
  usageChunk,
} from "./support/scripted-backend.ts";

const stream = chatBody({ stream: true });

describe("the life of a provider node", () => {
  let market: Market;
  let backend: ScriptedBackend;

  before(async () => {
    // A client may ask for its money one second after the post, so that a test need not wait.
    market = await startMarket({ ackWindow: 1, responseWindow: 30 });
    backend = await startScriptedBackend(goodStream(["Hi"]));
  });

  after(async () => {
    await backend.close();
    await market.stop();
  });

  beforeEach(() => backend.use(goodStream(["Hi"])));

  async function start(environment: Record<string, string> = {}): Promise<TestNode> {
    return await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_MAX_CONCURRENT_JOBS: "20", ...environment },
    });
  }

  async function eventNames(jobId: string): Promise<string[]> {
    const { escrow } = await eventsOf(market);
    return escrow
      .filter((event) => "jobId" in event.args && event.args.jobId === jobId)
      .map((event) => event.eventName);
  }

  async function elapse(seconds: number): Promise<void> {
    await market.chain.rpc("evm_increaseTime", seconds);
    await market.chain.rpc("evm_mine");
  }

  it("declines a job that no request ever comes for, so that its slot is free again", async () => {
    const node = await start({ T4T_UNFETCHED_DECLINE_SECONDS: "1" });
    try {
      const job = await market.client.post(node.address);
      await until("it is known", async () => (await jobAtProvider(node, job)).status === "posted");
      await untilOnChain(market, job, onChain.declined);
      await until("the node knows", async () => (await jobAtProvider(node, job)).status === "declined");
      const late = await market.client.request(node.url, job, stream);
      expect(late.status).to.equal(409);
      expect((await providerOnChain(market, node.address)).openJobs).to.equal(0);
    } finally {
      await node.close();
    }
  });

  it("gives back a job that was posted while it was starting, so that no slot is held by what it never heard of", async () => {
    const key = await market.providerKey();
    const { address } = privateKeyToAccount(key);
    // Each post that fails is a block too, for which the node waits to confirm what it publishes.
    const environment = { T4T_CONFIRMATIONS: "2", T4T_UNFETCHED_DECLINE_SECONDS: "1" };
    const starting = startNode({ market, backendUrl: backend.url, key, environment });
    try {
      const client = await market.newClient();
      const job = await until("it offers", async () => await client.post(address).catch(() => undefined), 30_000);
      await until("it is declined", async () => {
        await market.chain.rpc("evm_mine");
        return (await jobOnChain(market, job.jobId)).status === onChain.declined;
      });
    } finally {
      await (await starting).close();
    }
  });

  it("shows on chain that it works when the client asks for its money in mid-stream, and is paid in the end", async () => {
    const node = await start();
    try {
      const release = Promise.withResolvers<void>();
      backend.use([
        streamHead,
        chunk(delta("one")),
        hold(release.promise),
        chunk(stopChunk + usageChunk(7, 1) + doneChunk),
        end,
      ]);
      const job = await market.client.post(node.address);
      const response = await market.client.request(node.url, job, stream);
      await elapse(2);
      await market.client.requestCancel(job.jobId);
      await untilOnChain(market, job, onChain.acknowledged);
      release.resolve();
      const seen = await readStream(response);
      await market.client.sendReceipt(
        node.url,
        node.address,
        job.jobId,
        { inputTokens: 7, outputTokens: 1 },
        bodyHash(seen.body),
      );
      await untilOnChain(market, job, onChain.completed);
    } finally {
      await node.close();
    }
  });

  it("gives the money back at once when the client asks for it before any request", async () => {
    const node = await start();
    try {
      const job = await market.client.post(node.address);
      await elapse(2);
      await market.client.requestCancel(job.jobId);
      await untilOnChain(market, job, onChain.declined);
    } finally {
      await node.close();
    }
  });

  it("claims what it delivered at once when the client takes the answer and asks for its money", async () => {
    const node = await start();
    try {
      const job = await market.client.post(node.address, { unsignedLimit: 10n });
      await readStream(await market.client.request(node.url, job, stream));
      await elapse(2);
      await market.client.requestCancel(job.jobId);
      await untilOnChain(market, job, onChain.completed);
    } finally {
      await node.close();
    }
  });

  it("cuts an answer that runs into the job's deadline, in time to be paid for it", async () => {
    const node = await start({
      T4T_SETTLE_MARGIN_SECONDS: "28",
      T4T_MIN_JOB_SECONDS: "0",
      T4T_RECEIPT_GRACE_SECONDS: "0",
    });
    try {
      backend.use([streamHead, chunk(delta("one")), hang]);
      const job = await market.client.post(node.address, { duration: 31, unsignedLimit: 100n });
      const { deadline } = await jobOnChain(market, job.jobId);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      expect(seen.isCut).to.equal(true);
      await untilOnChain(market, job, onChain.completed);
      expect(Number((await market.reader.getBlock()).timestamp)).to.be.lessThan(deadline);
    } finally {
      await node.close();
    }
  });

  it("is paid again for a job whose settlement the chain has dropped while it was away", async () => {
    const key = await market.providerKey();
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    const environment = { T4T_ENDPOINT: "http://provider.example" };
    const open = async () => await startNode({ market, backendUrl: backend.url, key, dataDir, environment });
    const first = await open();
    const job = await market.client.post(first.address);
    const seen = await readStream(await market.client.request(first.url, job, stream));
    const branch = await market.chain.rpc("evm_snapshot");
    const { inputTokens, outputTokens } = seen.statement ?? { inputTokens: 0, outputTokens: 0 };
    const usage = { inputTokens, outputTokens };
    await market.client.sendReceipt(first.url, first.address, job.jobId, usage, bodyHash(seen.body));
    await untilOnChain(market, job, onChain.completed);
    await until("it knows", async () => (await jobAtProvider(first, job)).status === "settled");
    await first.close();
    await market.chain.rpc("evm_revert", branch);
    await market.chain.rpc("hardhat_mine", "0x3");
    expect((await jobOnChain(market, job.jobId)).status, "the settlement is gone").to.equal(onChain.open);
    const second = await open();
    try {
      await untilOnChain(market, job, onChain.completed);
      await until("it knows", async () => (await jobAtProvider(second, job)).status === "settled");
      expect((await jobAtProvider(second, job)).payment).to.equal("20");
      expect((await providerOnChain(market, second.address)).openJobs).to.equal(0);
    } finally {
      await second.close();
    }
  });

  it("is paid again after a reorganisation under it, though a node that had not followed it denied it at first", async () => {
    const proxy = await countingRpcProxy(market.chain.rpcUrl);
    // What is looked after once a minute is looked after several times a second.
    const after = (delayMs: number, callback: () => void) =>
      systemClock.after(delayMs === 60_000 ? 200 : delayMs, callback);
    const node = await startNode({
      market,
      backendUrl: backend.url,
      key: await market.providerKey(),
      environment: { T4T_RPC_URL: proxy.url },
      dependencies: { clock: { ...systemClock, after } },
    });
    try {
      const job = await market.client.post(node.address);
      const seen = await readStream(await market.client.request(node.url, job, stream));
      const branch = await market.chain.rpc("evm_snapshot");
      const { inputTokens, outputTokens } = seen.statement ?? { inputTokens: 0, outputTokens: 0 };
      const usage = { inputTokens, outputTokens };
      await market.client.sendReceipt(node.url, node.address, job.jobId, usage, bodyHash(seen.body));
      await untilOnChain(market, job, onChain.completed);
      await until("it knows", async () => (await jobAtProvider(node, job)).status === "settled");
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "jobOf", args: [job.jobId] });
      const stale = await market.chain.rpc("eth_call", { to: market.deployment.escrow, data }, "latest");
      let denials = 0;
      proxy.setFault(({ method, params }) => {
        const [call] = params as [{ readonly data?: string } | undefined];
        if (method !== "eth_call" || call?.data !== data || denials > 0) return undefined;
        denials += 1;
        return { kind: "result", result: stale };
      });
      await market.chain.rpc("evm_revert", branch);
      await market.chain.rpc("hardhat_mine", "0x3");
      await untilOnChain(market, job, onChain.completed, 30_000);
      await until("it knows", async () => (await jobAtProvider(node, job)).payment === "20");
      expect(denials, "it was denied once").to.equal(1);
    } finally {
      await node.close();
      await proxy.stop();
    }
  });

  it("is paid for answers whose jobs seemed to have expired under them, when the chain takes that back", async () => {
    const node = await start();
    const releases = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    let requests = 0;
    backend.use(() => {
      const release = releases[requests === 0 ? 0 : 1];
      requests += 1;
      return [
        streamHead,
        chunk(delta("Hi")),
        hold(release.promise),
        chunk(stopChunk + usageChunk(7, 1) + doneChunk),
        end,
      ];
    });
    try {
      const jobs = [await market.client.post(node.address), await market.client.post(node.address)] as const;
      const answers: Promise<SeenStream>[] = [];
      for (const job of jobs) {
        const response = await market.client.request(node.url, job, stream);
        answers.push(readStream(response));
      }
      const receiptOf = async (index: 0 | 1): Promise<Response> => {
        const seen = await answers[index];
        const { inputTokens, outputTokens } = seen?.statement ?? { inputTokens: 0, outputTokens: 0 };
        const usage = { inputTokens, outputTokens };
        const { jobId } = jobs[index];
        return await market.client.sendReceipt(node.url, node.address, jobId, usage, bodyHash(seen?.body ?? ""));
      };
      const branch = await market.chain.rpc("evm_snapshot");
      await elapse(700);
      const ids = jobs.map(({ jobId }) => jobId);
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "expireJobs", args: [ids] });
      await market.client.send(market.deployment.escrow, data);
      for (const job of jobs) await until("it is lost", async () => (await jobAtProvider(node, job)).status === "lost");
      releases[0].resolve();
      expect((await receiptOf(0)).status, "a receipt is good to have").to.equal(200);
      await market.chain.rpc("evm_revert", branch);
      await market.chain.rpc("hardhat_mine", "0x3");
      await untilOnChain(market, jobs[0], onChain.completed, 30_000);
      releases[1].resolve();
      expect((await receiptOf(1)).status).to.equal(200);
      await untilOnChain(market, jobs[1], onChain.completed, 30_000);
      for (const job of jobs) {
        await until("it is paid", async () => (await jobAtProvider(node, job)).payment === "20");
      }
    } finally {
      await node.close();
    }
  });

  it("is ready for nothing any more, and says so to whoever runs it, when its journal is lost", async () => {
    let fatal: Error | undefined;
    const thread = nextThread();
    const onFatal = (error: Error): void => {
      fatal = error;
    };
    const key = await market.providerKey();
    const node = await startNode({ market, backendUrl: backend.url, key, dependencies: { onFatal } });
    try {
      await (await thread).terminate();
      await until("it is told", () => fatal);
      const ready = await fetch(`${node.url}/readyz`);
      expect(ready.status).to.equal(503);
      expect(await ready.text()).to.include("the journal is lost");
    } finally {
      await node.close();
    }
  });

  it("settles many jobs that are ready together in one transaction", async () => {
    const node = await start({ T4T_SETTLE_WINDOW_MS: "1500" });
    try {
      const before = await market.reader.getTransactionCount({ address: node.address });
      const jobs = await Promise.all(Array.from({ length: 5 }, async () => await runJob(market.client, node)));
      for (const job of jobs) await untilOnChain(market, job, onChain.completed);
      expect(await market.reader.getTransactionCount({ address: node.address })).to.equal(before + 1);
      await until("the node knows of all", async () => {
        const told = await Promise.all(jobs.map(async (job) => await jobAtProvider(node, job)));
        return told.every((job) => job.status === "settled");
      });
    } finally {
      await node.close();
    }
  });

  it("drains: refuses the new, gives back what was not begun, lets a stream end and be paid, and stays registered", async () => {
    const node = await start({ T4T_DRAIN_SECONDS: "30" });
    const release = Promise.withResolvers<void>();
    backend.use([
      streamHead,
      chunk(delta("one")),
      hold(release.promise),
      chunk(stopChunk + usageChunk(7, 1) + doneChunk),
      end,
    ]);
    const running = await market.client.post(node.address);
    const unbegun = await market.client.post(node.address);
    const response = await market.client.request(node.url, running, stream);
    await until("both are known", async () => (await jobAtProvider(node, unbegun)).status === "posted");
    const closing = node.close();
    const refused = await market.client.request(node.url, unbegun, stream);
    expect(refused.status).to.equal(503);
    expect(await errorCode(refused)).to.equal("provider_draining");
    expect((await fetch(`${node.url}/readyz`)).status).to.equal(503);
    await untilOnChain(market, unbegun, onChain.declined);
    const posted = await market.client.post(node.address);
    await untilOnChain(market, posted, onChain.declined);
    release.resolve();
    const seen = await readStream(response);
    expect(seen.statement).to.include({ outputTokens: 1 });
    const receipt = await market.client.sendReceipt(
      node.url,
      node.address,
      running.jobId,
      { inputTokens: 7, outputTokens: 1 },
      bodyHash(seen.body),
    );
    expect(receipt.status).to.equal(200);
    await closing;
    expect((await jobOnChain(market, running.jobId)).status).to.equal(onChain.completed);
    const provider = await providerOnChain(market, node.address);
    expect(provider.active).to.equal(true);
    expect(provider.openJobs).to.equal(0);
  });

  it("ends a stream that outlasts the drain, and claims what it delivered", async () => {
    const node = await start({ T4T_DRAIN_SECONDS: "0" });
    backend.use([streamHead, chunk(delta("one")), hang]);
    const job = await market.client.post(node.address, { unsignedLimit: 100n });
    const response = await market.client.request(node.url, job, stream);
    const reader = response.body?.getReader() ?? expect.fail("no body");
    await reader.read();
    await node.close();
    await reader.read().catch(() => undefined);
    expect((await jobOnChain(market, job.jobId)).status).to.equal(onChain.completed);
  });

  describe("in a process of its own", () => {
    it("drains on SIGTERM and exits with 0, and takes a new cap on SIGHUP", async () => {
      const key = await market.providerKey();
      const dataDir = await newDataDir();
      const file = `${dataDir}/endpoints.json`;
      await writeEndpoints(file, backend.url);
      const environment = await nodeEnvironment({ market, backendUrl: backend.url, key, dataDir }, dataDir);
      const child = await startMainNode(environment);
      const address = privateKeyToAccount(key).address;
      expect((await fetch(`${child.url}/readyz`)).status).to.equal(200);
      await writeEndpoints(file, backend.url, { maxConcurrentJobs: 6 });
      child.kill("SIGHUP");
      await until("the cap is on chain", async () => (await providerOnChain(market, address)).maxConcurrentJobs === 6);
      const job = await market.client.post(address);
      child.kill("SIGTERM");
      expect(await child.gone).to.equal(0);
      expect((await jobOnChain(market, job.jobId)).status).to.equal(onChain.declined);
      expect((await providerOnChain(market, address)).active).to.equal(true);
      expect(child.output()).to.not.include(key.slice(2));
    });

    it("names every wrong setting at once and exits with 1, without repeating a key", async () => {
      const key = await market.providerKey();
      const dataDir = await newDataDir();
      const environment = await nodeEnvironment({ market, backendUrl: backend.url, key, dataDir }, dataDir);
      const { spawnSync } = await import("node:child_process");
      const { fileURLToPath } = await import("node:url");
      const main = fileURLToPath(new URL("../../provider/main.ts", import.meta.url));
      const ran = spawnSync(process.execPath, [main], {
        env: { ...environment, T4T_PROVIDER_PORT: "x", T4T_STAKE: key, T4T_NO_SUCH: "1" },
        encoding: "utf8",
      });
      expect(ran.status).to.equal(1);
      for (const name of ["T4T_PROVIDER_PORT", "T4T_STAKE", "T4T_NO_SUCH"]) expect(ran.stderr).to.include(name);
      expect(ran.stderr + ran.stdout).to.not.include(key.slice(2));
    });
  });

  it("leaves every job with exactly one end on chain", async () => {
    const { escrow } = await eventsOf(market);
    const posted = escrow.filter((event) => event.eventName === "JobPosted").map((event) => event.args.jobId as string);
    expect(posted.length).to.be.greaterThan(10);
    for (const jobId of posted) {
      const ends = (await eventNames(jobId)).filter((name) =>
        ["JobCompleted", "JobDeclined", "JobCancelled", "JobExpired", "JobSlashed"].includes(name),
      );
      expect(ends, jobId).to.have.length(1);
    }
  });
});
