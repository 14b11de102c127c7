import { expect } from "chai";
import { rm } from "node:fs/promises";
import type { Address, Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { chunk, end, hang, head } from "../support/scripted-upstream.ts";
import { until } from "../support/until.ts";
import { chatBody, jobAtProvider, onChain, readStream, type SeenStream } from "./support/answers.ts";
import { type ChildNode, startChildNode } from "./support/child-node.ts";
import { eventsOf, jobOnChain, type Market, type PostedJob, providerOnChain, startMarket } from "./support/market.ts";
import { newDataDir, nodeEnvironment, startNode, writeEndpoints } from "./support/node.ts";
import {
  delta,
  goodStream,
  type ScriptedBackend,
  startScriptedBackend,
  streamHead,
} from "./support/scripted-backend.ts";

const stream = chatBody({ stream: true });
const ends: ReadonlySet<string> = new Set(["JobCompleted", "JobDeclined", "JobCancelled", "JobExpired", "JobSlashed"]);

describe("a provider node that is killed", () => {
  let market: Market;
  let backend: ScriptedBackend;
  /** Whether the client signs what it got. */
  let withReceipt = true;

  before(async () => {
    market = await startMarket();
    backend = await startScriptedBackend(goodStream(["Hi"]));
  });

  after(async () => {
    await backend.close();
    await market.stop();
  });

  interface Place {
    readonly key: Hex;
    readonly address: Address;
    readonly dataDir: string;
    readonly environment: Record<string, string>;
  }

  async function newPlace(): Promise<Place> {
    const key = await market.providerKey();
    const dataDir = await newDataDir();
    await writeEndpoints(`${dataDir}/endpoints.json`, backend.url);
    const own = { T4T_ENDPOINT: "http://provider.example", T4T_RECEIPT_GRACE_SECONDS: "2" };
    const environment = await nodeEnvironment(
      { market, backendUrl: backend.url, key, dataDir, environment: own },
      dataDir,
    );
    return { key, address: privateKeyToAccount(key).address, dataDir, environment };
  }

  /** Sends the request and, where an answer came, the receipt; a provider that dies meanwhile is part of the test. */
  async function tryJob(url: string, address: Address, job: PostedJob): Promise<SeenStream | undefined> {
    try {
      const seen = await readStream(await market.client.request(url, job, stream));
      await tryReceipt(url, address, job, seen);
      return seen;
    } catch {
      return undefined;
    }
  }

  async function tryReceipt(url: string, address: Address, job: PostedJob, seen: SeenStream): Promise<void> {
    if (seen.statement === undefined || !withReceipt) return;
    const { inputTokens, outputTokens } = seen.statement;
    await market.client
      .sendReceipt(url, address, job.jobId, { inputTokens, outputTokens }, bodyHash(seen.body))
      .catch(() => undefined);
  }

  async function endsOf(job: PostedJob): Promise<string[]> {
    const { escrow } = await eventsOf(market);
    return escrow
      .filter((event) => "jobId" in event.args && event.args.jobId === job.jobId)
      .map((event) => event.eventName)
      .filter((name) => ends.has(name));
  }

  /** Kills the node at a point of one job's life, starts it again, and tells how the job ended. */
  async function endAfterCrash(crashAt: string): Promise<{ end: string; told: Record<string, unknown> }> {
    const place = await newPlace();
    const child = await startChildNode(place.environment, crashAt);
    if (child === undefined) throw new Error("the node left at its start");
    const job = await market.client.post(place.address, { unsignedLimit: 1_000n });
    const seen = await tryJob(child.url, place.address, job);
    expect(await child.gone, child.output()).to.equal("SIGKILL");
    const node = await startNode({
      market,
      backendUrl: backend.url,
      key: place.key,
      dataDir: place.dataDir,
      environment: place.environment,
    });
    try {
      if (seen !== undefined) await tryReceipt(node.url, node.address, job, seen);
      await until(
        "the job has ended on chain",
        async () => (await jobOnChain(market, job.jobId)).status >= onChain.completed,
        20_000,
      );
      await until("the node knows", async () =>
        ["settled", "declined", "forfeited"].includes(String((await jobAtProvider(node, job)).status)),
      );
      const all = await endsOf(job);
      expect(all).to.have.length(1);
      expect((await providerOnChain(market, node.address)).openJobs).to.equal(0);
      return { end: all[0] ?? "", told: await jobAtProvider(node, job) };
    } finally {
      await node.close();
      await rm(place.dataDir, { recursive: true, force: true });
    }
  }

  describe("while a job is settled", () => {
    beforeEach(() => backend.use(goodStream(["Hi"])));

    for (const point of ["job-delivered", "persisted:complete", "sent:complete", "mined:complete"]) {
      it(`at ${point} is paid once, in full`, async () => {
        const { end: how, told } = await endAfterCrash(point);
        expect(how).to.equal("JobCompleted");
        expect(told.payment).to.equal("20");
      });
    }
  });

  it("at job-settling, without a receipt, is claimed once", async () => {
    backend.use(goodStream(["Hi"]));
    withReceipt = false;
    expect((await endAfterCrash("job-settling")).end).to.equal("JobCompleted");
    withReceipt = true;
  });

  it("at job-accepted gives the job back, as nothing was delivered", async () => {
    backend.use(goodStream(["Hi"]));
    expect((await endAfterCrash("job-accepted")).end).to.equal("JobDeclined");
  });

  describe("while a job is given back", () => {
    beforeEach(() => backend.use([head(400), chunk("{}"), end]));

    for (const point of ["job-declining", "sent:decline"]) {
      it(`at ${point} gives it back once`, async () => {
        expect((await endAfterCrash(point)).end).to.equal("JobDeclined");
      });
    }
  });

  it("in mid-stream claims what it had delivered by its last checkpoint", async () => {
    backend.use([streamHead, chunk(delta("one")), chunk(delta("two")), hang]);
    const place = await newPlace();
    const child = (await startChildNode(place.environment)) as ChildNode;
    const job = await market.client.post(place.address, { unsignedLimit: 1_000n });
    const reading = market.client.request(child.url, job, stream).then(readStream);
    await until("what was delivered is journaled", async () => {
      const told = (await jobAtProvider(child, job)) as { readonly usage?: { readonly outputTokens: number } };
      return told.usage?.outputTokens === 2;
    });
    child.kill("SIGKILL");
    expect((await reading).isCut).to.equal(true);
    await child.gone;
    const node = await startNode({
      market,
      backendUrl: backend.url,
      key: place.key,
      dataDir: place.dataDir,
      environment: place.environment,
    });
    try {
      expect(await jobAtProvider(node, job)).to.include({ partial: true });
      await until("it is paid", async () => (await jobOnChain(market, job.jobId)).status === onChain.completed, 20_000);
      expect(await endsOf(job)).to.deep.equal(["JobCompleted"]);
    } finally {
      await node.close();
    }
  });

  it("with a job posted while it was away serves or declines it, and loses none", async () => {
    backend.use(goodStream(["Hi"]));
    const place = await newPlace();
    const child = (await startChildNode(place.environment)) as ChildNode;
    child.kill("SIGKILL");
    await child.gone;
    const [wanted, forgotten] = [await market.client.post(place.address), await market.client.post(place.address)];
    const node = await startNode({
      market,
      backendUrl: backend.url,
      key: place.key,
      dataDir: place.dataDir,
      environment: { ...place.environment, T4T_UNFETCHED_DECLINE_SECONDS: "2" },
    });
    try {
      expect((await jobAtProvider(node, forgotten)).status).to.equal("posted");
      await tryJob(node.url, node.address, wanted);
      await until(
        "both have ended",
        async () => (await endsOf(wanted)).length === 1 && (await endsOf(forgotten)).length === 1,
      );
      expect(await endsOf(wanted)).to.deep.equal(["JobCompleted"]);
      expect(await endsOf(forgotten)).to.deep.equal(["JobDeclined"]);
    } finally {
      await node.close();
    }
  });

  describe("while it publishes itself", () => {
    for (const point of ["sent:register", "persisted:setOffering"]) {
      it(`at ${point} goes on where it was, and does nothing twice`, async () => {
        const place = await newPlace();
        expect(await startChildNode(place.environment, point), "it dies before it is ready").to.equal(undefined);
        const node = await startNode({
          market,
          backendUrl: backend.url,
          key: place.key,
          dataDir: place.dataDir,
          environment: place.environment,
        });
        try {
          expect(node.provider.notReady()).to.equal(undefined);
          const { registry } = await eventsOf(market);
          const names = registry
            .filter((event) => "provider" in event.args && event.args.provider === place.address)
            .map((event) => event.eventName);
          expect(names).to.deep.equal(["ProviderRegistered", "Staked", "MaxConcurrentJobsUpdated", "OfferingSet"]);
        } finally {
          await node.close();
        }
      });
    }
  });
});
