import { expect } from "chai";
import { systemClock } from "../../../chain/system-clock.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { chunk, end, hang, head, reset } from "../../support/scripted-upstream.ts";
import { chunkData, frame, goodJson } from "../../support/upstream-scripts.ts";
import { jobRow } from "../../support/journal-rows.ts";
import { until } from "../../support/until.ts";
import type { JobDocument } from "../../../gateway/jobs/job-document.ts";
import { FakeChain } from "../support/fake-chain.ts";
import { MemoryJournal } from "../support/memory-journal.ts";
import { acknowledged, type ScriptedProvider, scriptedModel } from "../support/scripted-provider.ts";
import { testSettings } from "../support/test-settings.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const body = { model: scriptedModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 50 };
const eventStream = { "content-type": "text/event-stream" };
const tokens = frame(chunkData({ content: "One" }));

function documents(journal: MemoryJournal): readonly JobDocument[] {
  return [...journal.jobs.values()].map(({ document }) => JSON.parse(document) as JobDocument);
}

describe("what is left of a job that went wrong", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  async function ask(change: object = {}): Promise<Response> {
    return await postJson(`${place.url}/v1/chat/completions`, { ...body, ...change });
  }

  it("comes back by a cancel, after the windows of the escrow and not before", async () => {
    place = await startTestGateway({ providers: [() => [reset], acknowledged(goodJson)] });
    expect((await ask()).status).to.equal(200);
    const [dead] = place.providers;
    const openJobs = () => place.chain.provider(dead?.address ?? "0x").openJobs;
    expect(openJobs()).to.equal(1);
    await until("the janitor has looked", () => place.chain.calls.includes("jobOf"));
    expect(place.chain.calls).to.not.include("requestCancel");
    place.chain.advance(32);
    await until("the money is asked for", () => place.chain.calls.includes("requestCancel"));
    expect(place.chain.calls).to.not.include("finalizeCancel");
    place.chain.advance(62);
    await until("the slot is free", () => openJobs() === 0);
    expect(place.chain.calls.filter((call) => call !== "jobOf")).to.deep.equal(["requestCancel", "finalizeCancel"]);
    const job = (await (await fetch(`${place.url}/v1/jobs/${documents(place.journal)[0]?.id ?? ""}`)).json()) as {
      locked: string;
      attempts: { status: string }[];
    };
    expect(job.locked).to.equal("0");
    expect(job.attempts.map(({ status }) => status)).to.deep.equal(["cancelled", "settled"]);
  });

  it("comes back also where our clock is ahead of the chain's, which is no fault", async () => {
    place = await startTestGateway({ providers: [() => [reset], acknowledged(goodJson)] });
    expect((await ask()).status).to.equal(200);
    place.chain.earlyCancels = 1;
    place.chain.advance(32);
    const cancels = () => place.chain.calls.filter((call) => call === "requestCancel").length;
    await until("it is asked for again", () => cancels() === 2, 15_000);
    const metrics = await (await fetch(`${place.url}/metrics`)).text();
    expect(metrics).to.not.match(/faults_total\{[^}]*janitor[^}]*\} [1-9]/);
  });

  it("comes back when its post was given up and is mined all the same, however late", async () => {
    place = await startTestGateway({ providers: [acknowledged(goodJson)], janitorMs: 20 });
    place.chain.postFault = () => ({ kind: "abandoned", message: "no answer", undecided: true });
    expect((await ask()).status).to.equal(503);
    await until("the janitor has looked", () => place.chain.calls.includes("jobOf"));
    expect(documents(place.journal)[0]?.attempts[0]?.state, "nobody knows yet").to.equal("posting");
    const jobId = place.chain.mineLate(0);
    place.chain.advance(200);
    await until("the money is asked for", () => place.chain.calls.includes("requestCancel"));
    place.chain.advance(62);
    await until("it is back", () => place.chain.jobs.get(jobId)?.status === "Cancelled");
    await until("that is journaled", () => documents(place.journal)[0]?.attempts[0]?.state === "cancelled");
  });

  it("is closed when its post was given up and another transaction took its place", async () => {
    place = await startTestGateway({ providers: [acknowledged(goodJson)], janitorMs: 20 });
    place.chain.postFault = () => ({ kind: "abandoned", message: "no answer", undecided: true });
    await ask();
    await until("the janitor has looked", () => place.chain.calls.includes("jobOf"));
    place.chain.undecidedPosts.clear();
    await until("it is closed", () => documents(place.journal)[0]?.attempts[0]?.state === "not_posted");
  });

  it("shows in the API and the metrics while it is locked", async () => {
    place = await startTestGateway({ providers: [() => [reset]] });
    await ask();
    const [document] = documents(place.journal);
    const maxPayment = document?.attempts[0]?.maxPayment;
    const job = (await (await fetch(`${place.url}/v1/jobs/${document?.id ?? ""}`)).json()) as { locked: string };
    expect(job.locked).to.equal(maxPayment);
    expect(await (await fetch(`${place.url}/metrics`)).text()).to.include(
      `t4t_gateway_locked_wei ${maxPayment ?? ""}\n`,
    );
  });

  it("is left alone when the provider gives it back by itself", async () => {
    place = await startTestGateway({ providers: [() => [reset], acknowledged(goodJson)] });
    await ask();
    const jobId = documents(place.journal)[0]?.attempts[0]?.jobId ?? "0x";
    place.chain.end(jobId, { type: "declined" });
    await until("it is known", () => documents(place.journal)[0]?.attempts[0]?.state === "declined");
    place.chain.advance(200);
    await until("the rest is settled", () => documents(place.journal)[0]?.attempts[1]?.state === "settled");
    expect(place.chain.calls).to.not.include("requestCancel");
  });

  it("costs its provider the stake when it had bound itself, vanished, and the deadline came", async () => {
    place = await startTestGateway({
      providers: [acknowledged([head(200, eventStream), chunk(tokens), reset])],
      janitorMs: 20,
    });
    await (await ask({ stream: true })).text();
    const attempt = await until("it is given up", () =>
      documents(place.journal)[0]?.attempts.find(({ state }) => state === "abandoned"),
    );
    expect(attempt).to.include({ fault: true });
    // Windows in which a cancel would have let it go.
    for (const seconds of [32, 62, 200]) {
      const looks = place.chain.calls.length;
      place.chain.advance(seconds);
      if (seconds === 32) await until("the janitor has looked", () => place.chain.calls.length > looks, 15_000);
    }
    expect(place.chain.calls.filter((call) => call !== "jobOf")).to.deep.equal([]);
    place.chain.advance(2000);
    await until("it is slashed", () => place.chain.calls.includes("slash"));
    expect(place.chain.calls.filter((call) => call !== "jobOf")).to.deep.equal(["slash"]);
  });

  it("comes back without a slash where that is too dear, and at once where the operator wants none", async () => {
    const vanishes = acknowledged([head(200, eventStream), chunk(tokens), reset]);
    place = await startTestGateway({ providers: [vanishes], janitorMs: 20, settings: { maxSlashFee: 10n } });
    place.chain.gasPrice = 11n;
    await (await ask({ stream: true })).text();
    await until("it is given up", () => documents(place.journal)[0]?.attempts[0]?.state === "abandoned");
    place.chain.advance(2000);
    await until("it is expired", () => place.chain.calls.includes("expire"));
    expect(place.chain.calls).to.not.include("slash");
    await place.close();
    const signsOnly = acknowledged([head(200, eventStream), reset]);
    place = await startTestGateway({ providers: [signsOnly], janitorMs: 20, settings: { maxSlashFee: 0n } });
    await (await ask({ stream: true })).text();
    await until("it is given up", () => documents(place.journal)[0]?.attempts[0]?.fault);
    place.chain.advance(100);
    await until("the money is asked for", () => place.chain.calls.includes("requestCancel"));
  });

  it("is taken up by the next process after a kill in the middle of a stream: the part delivered is paid", async () => {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    place = await startTestGateway({
      chain,
      journal,
      providers: [acknowledged([head(200, eventStream), chunk(tokens), hang])],
    });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    const response = await ask({ stream: true });
    await response.body?.getReader().read();
    await until("the acknowledgement is journaled", () => documents(journal)[0]?.attempts[0]?.state === "acknowledged");
    // What a kill leaves: the journal as it is. The first process is not allowed to write any more.
    const left = new MemoryJournal();
    for (const [id, row] of journal.jobs) left.jobs.set(id, row);
    await place.gateway.close(0);
    provider.statementOf = async (jobId) =>
      await provider.state(jobId, { inputTokens: 3, outputTokens: 1 }, bodyHash(tokens));
    const next = await startTestGateway({ chain, journal: left });
    const receipt = await until("the provider is paid for the part", () => provider.receipts[0]);
    expect(receipt.usage).to.deep.equal({ inputTokens: 3, outputTokens: 1 });
    await until("it is settled", () => documents(left)[0]?.attempts[0]?.state === "settled");
    expect(documents(left)[0]?.outcome).to.include({ status: "failed", code: "gateway_restarted" });
    await next.close();
  });

  it("pays a provider no more for a stream that a kill cut than can have come, whatever it says", async () => {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    const long = frame(chunkData({ content: "word ".repeat(1000) }));
    place = await startTestGateway({
      chain,
      journal,
      providers: [acknowledged([head(200, eventStream), chunk(tokens), chunk(long), hang])],
    });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    const response = await ask({ stream: true, max_tokens: 8000 });
    await response.body?.getReader().read();
    const horizon = await until("what can have come is journaled", () => {
      const [attempt] = documents(journal)[0]?.attempts ?? [];
      return (attempt?.outputHorizon ?? 0) > 2500 ? attempt?.outputHorizon : undefined;
    });
    expect(horizon, "ahead of what was seen, but not by much").to.be.within(2564, 6000);
    const left = new MemoryJournal();
    for (const [id, row] of journal.jobs) left.jobs.set(id, row);
    await place.gateway.close(0);
    provider.statementOf = async (jobId) =>
      await provider.state(jobId, { inputTokens: 3, outputTokens: 8000 }, bodyHash(tokens));
    const next = await startTestGateway({ chain, journal: left });
    const receipt = await until("the provider is paid for the part", () => provider.receipts[0]);
    expect(receipt.usage).to.deep.equal({ inputTokens: 3, outputTokens: horizon });
    await next.close();
  });

  it("is not lost when the process was killed before it knew whether its post was mined", async () => {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    place = await startTestGateway({ chain, journal, providers: [acknowledged(goodJson)] });
    const never = Promise.withResolvers<undefined>();
    chain.postFault = async () => await never.promise;
    const leave = new AbortController();
    const asked = postJson(`${place.url}/v1/chat/completions`, body, { signal: leave.signal }).catch(() => undefined);
    const row = await until("the intent is journaled", () =>
      [...journal.jobs.values()].find(({ status }) => status === "posting"),
    );
    const left = new MemoryJournal();
    left.jobs.set(row.id, row);
    leave.abort();
    // The transaction was on its way: it is mined after the kill.
    chain.postFault = undefined;
    never.resolve(undefined);
    await asked;
    await until("the post is mined", () => chain.jobs.size === 1);
    await place.gateway.close(0);
    const next = await startTestGateway({ chain, journal: left });
    await until("the next process has found it", () => documents(left)[0]?.attempts[0]?.state === "abandoned");
    expect(documents(left)[0]?.attempts[0]).to.include({ provider: place.providers[0]?.address });
    chain.advance(200);
    await until("its money is asked for", () => chain.calls.includes("requestCancel"));
    await next.close();
  });

  it("is closed when the killed process had posted nothing", async () => {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    place = await startTestGateway({ chain, journal, providers: [acknowledged(goodJson)] });
    chain.postFault = () => ({ kind: "failed", errorName: "EnforcedPause", message: "paused" });
    expect((await ask()).status).to.equal(503);
    const row = await until("it is journaled", () => [...journal.jobs.values()][0]);
    const document = JSON.parse(row.document) as JobDocument;
    const left = new MemoryJournal();
    left.jobs.set(row.id, {
      ...row,
      open: true,
      document: JSON.stringify({
        ...document,
        outcome: null,
        attempts: document.attempts.map((attempt) => ({ ...attempt, state: "posting" })),
      }),
    });
    const next = await startTestGateway({ chain, journal: left });
    await until("it is closed", () => documents(left)[0]?.attempts[0]?.state === "not_posted");
    expect([...left.jobs.values()][0]?.open).to.equal(false);
    await next.close();
  });

  for (const [status, name] of [
    [404, "does not know the URL"],
    [429, "limits requests"],
    [200, "is under maintenance"],
  ] as const) {
    it(`is paid although a proxy before its provider ${name} when the receipt comes first`, async () => {
      place = await startTestGateway({ providers: [acknowledged(goodJson)] });
      const [provider] = place.providers;
      if (provider === undefined) throw new Error("no provider");
      let tries = 0;
      provider.receiptProxy = () => {
        tries += 1;
        return tries === 1 ? [head(status, { "content-type": "text/html" }), chunk("<html></html>"), end] : undefined;
      };
      expect((await ask()).status).to.equal(200);
      await until("the receipt comes again", () => provider.receipts[0]);
    });
  }

  it("keeps its receipt for a provider that cannot be reached now", async () => {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    place = await startTestGateway({ chain, journal, providers: [acknowledged(goodJson)] });
    const [provider] = place.providers;
    const response = await ask();
    await response.text();
    await provider?.upstream.close();
    await until("the receipt is journaled", () => documents(journal)[0]?.attempts[0]?.receipt);
    expect([...journal.jobs.values()][0]?.open).to.equal(true);
  });

  /** A gateway that went before its receipted job was paid, and what it left: the chain, and a journal that does not know of the payment. */
  async function paidWhileDown(): Promise<{
    readonly chain: FakeChain;
    readonly left: MemoryJournal;
    readonly provider: ScriptedProvider;
  }> {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    place = await startTestGateway({ chain, journal, providers: [acknowledged(goodJson)] });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    provider.settles = false;
    await (await ask()).text();
    const receipt = await until("the receipt arrives", () => provider.receipts[0]);
    await until("that is journaled", () => documents(journal)[0]?.attempts[0]?.receiptTaken);
    await place.gateway.close(0);
    chain.complete(receipt.jobId, receipt.usage, receipt.responseHash);
    const left = new MemoryJournal();
    for (const [id, row] of journal.jobs) left.jobs.set(id, { ...row, open: true });
    return { chain, left, provider };
  }

  it("learns of a payment that it missed while it was down", async () => {
    const { chain, left } = await paidWhileDown();
    const next = await startTestGateway({ chain, journal: left });
    await until("it is known", () => documents(left)[0]?.attempts[0]?.state === "settled", 20_000);
    expect(documents(left)[0]?.attempts[0]?.payment).to.equal("10");
    await next.close();
  });

  it("is paid as the chain says, although the node did not tell at once", async () => {
    const { chain, left, provider } = await paidWhileDown();
    chain.completionFaults = 1;
    const next = await startTestGateway({ chain, journal: left });
    const attempt = await until(
      "it is known",
      () => documents(left)[0]?.attempts.find(({ state }) => state === "settled"),
      20_000,
    );
    expect(attempt).to.include({ payment: "10", provider: provider.address });
    await next.close();
  });

  it("is closed when a reorganisation took its post back for good, once the chain has got past its deadline", async () => {
    place = await startTestGateway({ providers: [() => [reset]], janitorMs: 20 });
    await ask();
    const attempt = documents(place.journal)[0]?.attempts[0];
    place.chain.forget(attempt?.jobId ?? "0x");
    await until("the janitor has looked", () => place.chain.calls.includes("jobOf"));
    expect(documents(place.journal)[0]?.attempts[0]?.state, "it may come again").to.equal("abandoned");
    place.chain.advance(1000);
    await until("it is closed", () => documents(place.journal)[0]?.attempts[0]?.state === "not_posted", 15_000);
    expect(await (await fetch(`${place.url}/metrics`)).text()).to.include("t4t_gateway_locked_wei 0\n");
  });

  it("does not wait for another job's provider that hangs, and nor does the end of the gateway", async () => {
    const chain = new FakeChain();
    const journal = new MemoryJournal();
    place = await startTestGateway({
      chain,
      journal,
      providers: [
        { script: acknowledged(goodJson), models: ["hanging"] },
        { script: () => [reset], models: ["dead"] },
      ],
    });
    const [hanging] = place.providers;
    if (hanging === undefined) throw new Error("no provider");
    hanging.receiptProxy = () => [reset];
    for (let job = 0; job < 9; job += 1) expect((await ask({ model: "hanging" })).status).to.equal(200);
    await until("all receipts are signed", () => documents(journal).every(({ attempts }) => attempts[0]?.receipt));
    await place.gateway.close(0);
    let hanged = 0;
    hanging.receiptProxy = () => {
      hanged += 1;
      return [hang];
    };
    const next = await startTestGateway({ chain, journal, janitorMs: 20 });
    await until("the janitor waits for the hanging provider", () => hanged > 0);
    expect((await postJson(`${next.url}/v1/chat/completions`, { ...body, model: "dead" })).status).to.equal(502);
    chain.advance(40);
    await until("the dead provider's money is asked for", () => chain.calls.includes("requestCancel"), 5000);
    expect(hanged, "one provider is not asked for all of its jobs at once").to.be.at.most(4);
    const started = performance.now();
    await next.close();
    expect(performance.now() - started).to.be.lessThan(5000);
  });

  it("is paid where its provider answers now, when it has moved since", async () => {
    place = await startTestGateway({ providers: [acknowledged(goodJson)] });
    const [provider] = place.providers;
    if (provider === undefined) throw new Error("no provider");
    let tries = 0;
    provider.receiptProxy = ({ path }) => {
      if (path.startsWith("/moved/")) return undefined;
      tries += 1;
      return [reset];
    };
    expect((await ask()).status).to.equal(200);
    await until("the receipt finds nobody where the job was asked", () => tries > 0);
    place.chain.setProvider({
      ...place.chain.provider(provider.address),
      endpoint: `${provider.upstream.url}/moved`,
    });
    await until("the receipt has found it", () => provider.receipts[0]);
    await until("it is settled", () => documents(place.journal)[0]?.attempts[0]?.state === "settled");
  });

  it("is forgotten when it ended longer ago than the operator wants to know of it", async () => {
    const journal = new MemoryJournal();
    const clock = {
      ...systemClock,
      // The first round comes after a minute.
      after: (delayMs: number, callback: () => void) => systemClock.after(delayMs === 60_000 ? 0 : delayMs, callback),
    };
    const day = 86_400_000;
    for (const [id, days] of [
      ["young", 8],
      ["old", 10],
    ] as const) {
      await journal.putJob(
        jobRow({ id, open: false, document: JSON.stringify({ attempts: [] }), updatedAt: Date.now() - days * day }),
      );
    }
    const { chain } = testSettings();
    place = await startTestGateway({ journal, clock, settings: { chain: { ...chain, journalKeepMs: 9 * day } } });
    await until("the old one is forgotten", () => !journal.jobs.has("old"));
    expect([...journal.jobs.keys()]).to.deep.equal(["young"]);
  });

  it("fails the request, and posts nothing, when the journal cannot be written", async () => {
    place = await startTestGateway({ providers: [acknowledged(goodJson)] });
    place.journal.failure = new Error("disk full at /secret/path");
    const response = await ask();
    expect(response.status).to.equal(500);
    expect(await response.text()).to.not.include("secret");
    expect(place.chain.posts, "an intent that is not durable is not sent").to.have.length(0);
    place.journal.failure = undefined;
  });
});
