import { expect } from "chai";
import * as fc from "fast-check";
import { type Hex, hexToBytes, keccak256 } from "viem";
import { type ClientWeights, noWeights } from "../../../chain/registry-index/client-weights.ts";
import { joinHistory } from "../../../chain/registry-index/history.ts";
import { decodeLog, type IndexedLog } from "../../../chain/registry-index/logs.ts";
import { genesisState, type RegistryState, stateFromRecords } from "../../../chain/registry-index/state.ts";
import { applyLogs } from "../../../chain/registry-index/transition.ts";
import { modelKeyOf } from "../../../protocol/model-key.ts";
import {
  escrowEvent,
  FakeChain,
  type FakeEvent,
  fakeContracts,
  fakeRating,
  jobNumber,
  joining,
  person,
  registryEvent,
} from "../../support/fake-chain.ts";
import { FakeMarket, type Happening, happeningKinds } from "../../support/fake-market.ts";
import { plainState } from "../../support/plain-state.ts";

const provider = person(1);

async function logsOf(blocks: readonly (readonly FakeEvent[])[]): Promise<IndexedLog[]> {
  const chain = new FakeChain();
  for (const events of blocks) chain.extend(events);
  const logs = await chain.reader().logsInRange(1, chain.length);
  return logs.flatMap((log) => decodeLog(fakeContracts, log) ?? []);
}

const halfLifeBlocks = fakeRating.halfLifeSeconds / 100;

/** Weights of the client of all these jobs. */
function weighing(amount: number): ClientWeights {
  return { total: amount, unlisted: 0, clients: [person(9)], weights: [amount] };
}

/** Each block's time is 100 times its number. */
async function play(...blocks: readonly (readonly FakeEvent[])[]): Promise<RegistryState> {
  return applyLogs(genesisState, await logsOf(blocks), (blockNumber) => blockNumber * 100, fakeRating).state;
}

const posted = (job: number, offeringId: number): FakeEvent =>
  escrowEvent("JobPosted", {
    jobId: jobNumber(job),
    client: person(9),
    provider,
    offeringId,
    maxPayment: 10n,
    unsignedLimit: 5n,
    deadline: 1,
  });
const completed = (job: number, payment: bigint, signed: boolean): FakeEvent =>
  escrowEvent("JobCompleted", {
    jobId: jobNumber(job),
    provider,
    payment,
    inputTokens: 1n,
    outputTokens: 1n,
    responseHash: jobNumber(0),
    signed,
  });
const ended = (name: string, job: number, more: Readonly<Record<string, unknown>> = {}): FakeEvent =>
  escrowEvent(name, { jobId: jobNumber(job), provider, ...more });

describe("what an event does to the state", () => {
  it("registers with the cap and the endpoint of the event, active, with no jobs", async () => {
    const record = (await play(joining(1, 1, []))).providers.get(provider);
    expect(record).to.deep.include({ active: true, generation: 1, maxConcurrentJobs: 4, openJobs: 0, lastSeen: 100 });
  });

  it("moves lastSeen with every act of owner or operator, as the registry does, and not with slots", async () => {
    const acts: FakeEvent[] = [
      registryEvent("Heartbeat", { provider }),
      registryEvent("EndpointChanged", { provider, endpoint: "http://x" }),
      registryEvent("PayoutChanged", { provider, payout: person(3) }),
      registryEvent("OperatorChanged", { provider, previousOperator: provider, operator: person(4) }),
      registryEvent("MaxConcurrentJobsUpdated", { provider, previousMax: 4, maxConcurrentJobs: 5, openJobs: 0 }),
      registryEvent("Staked", { provider, amount: 1n, stake: 1n }),
      registryEvent("UnbondingStarted", { provider, amount: 1n, stake: 1n, unbondingAt: 1 }),
      registryEvent("StakeWithdrawn", { provider, to: provider, amount: 1n }),
    ];
    for (const act of acts) {
      expect((await play(joining(1, 1, ["a"]), [act])).providers.get(provider)?.lastSeen).to.equal(200);
      const inactive = await play(joining(1, 1, ["a"]), [registryEvent("ProviderDeactivated", { provider })], [act]);
      expect(inactive.providers.get(provider)?.lastSeen, "while inactive").to.equal(100);
    }
    const slots = registryEvent("SlotsChanged", { provider, openJobs: 1, maxConcurrentJobs: 4 });
    expect((await play(joining(1, 1, ["a"]), [slots])).providers.get(provider)).to.deep.include({
      lastSeen: 100,
      openJobs: 1,
    });
  });

  it("knows the stake that covers jobs, so that nobody without it is asked; a slash shows no life", async () => {
    const acts = [
      registryEvent("Staked", { provider, amount: 5n, stake: 5n }),
      registryEvent("UnbondingStarted", { provider, amount: 2n, stake: 3n, unbondingAt: 1 }),
      registryEvent("StakeWithdrawn", { provider, to: provider, amount: 2n }),
      registryEvent("StakeSlashed", { provider, amount: 1n, stake: 2n }),
    ];
    const seen: unknown[] = [];
    for (let count = 0; count <= acts.length; count += 1) {
      const blocks = acts.slice(0, count).map((act) => [act]);
      const record = (await play(joining(1, 1, ["a"]), ...blocks)).providers.get(provider);
      seen.push([record?.stake, record?.lastSeen]);
    }
    expect(seen).to.deep.equal([
      [0n, 100],
      [5n, 200],
      [3n, 300],
      [3n, 400],
      [2n, 400],
    ]);
  });

  it("counts a new generation at each return", async () => {
    const state = await play(
      joining(1, 1, []),
      [registryEvent("ProviderDeactivated", { provider })],
      [registryEvent("ProviderReactivated", { provider, generation: 2 })],
    );
    expect(state.providers.get(provider)).to.deep.include({ active: true, generation: 2, lastSeen: 300 });
  });

  it("rates a model by jobs with a receipt and by proven faults, and by nothing else", async () => {
    const state = await play(
      joining(1, 1, ["a", "b"]),
      [posted(1, 1), posted(2, 1), posted(3, 2), posted(4, 2), posted(5, 2), posted(6, 1), posted(7, 1)],
      [
        completed(1, 30n, true),
        completed(2, 99n, false),
        completed(3, 7n, true),
        ended("JobSlashed", 4, { burnt: 1n }),
        ended("JobDeclined", 5),
        ended("JobExpired", 6),
        ended("JobCancelled", 7),
      ],
    );
    const reputation = state.providers.get(provider)?.reputation;
    expect(reputation?.get("a")).to.deep.include({ paid: weighing(30), failed: noWeights });
    expect(reputation?.get("b")).to.deep.include({ paid: weighing(7), failed: weighing(10) });
    expect(state.jobs.size, "jobs remembered after their end").to.equal(0);
  });

  it("rates a job under the model of its own record, also when the price changed since", async () => {
    const reprice = joining(1, 8, ["a"]).slice(-1);
    const state = await play(joining(1, 1, ["a"]), [posted(1, 1)], reprice, [completed(1, 5n, true)]);
    expect(state.providers.get(provider)?.reputation.get("a")?.paid.total).to.equal(5);
  });

  it("leaves a provider exactly as it was, whatever a client does to a job that it posted and walked away from", async () => {
    const before = [joining(1, 1, ["a"]), [posted(1, 1)], [completed(1, 30n, true)]];
    const known = (await play(...before)).providers.get(provider)?.reputation;
    const ends: FakeEvent[][] = [
      [],
      [ended("JobDeclined", 2)],
      [ended("JobExpired", 2)],
      [ended("JobCancelRequested", 2, { respondBy: 1 }), ended("JobCancelled", 2)],
      [ended("JobAcknowledged", 2), ended("JobExpired", 2)],
      [completed(2, 5n, false)],
    ];
    for (const end of ends) {
      const after = (await play(...before, [posted(2, 1)], end)).providers.get(provider)?.reputation;
      expect(after).to.deep.equal(known);
    }
  });

  it("halves what an outcome weighs with every half-life of chain time", async () => {
    const rest = Array.from({ length: halfLifeBlocks - 1 }, () => []);
    const state = await play(joining(1, 1, ["a"]), [posted(1, 1), posted(2, 1)], [completed(1, 30n, true)], ...rest, [
      completed(2, 8n, true),
    ]);
    expect(state.providers.get(provider)?.reputation.get("a")?.paid.total).to.be.closeTo(15 + 8, 1e-9);
  });

  it("counts jobs of this process's own wallet apart from those of strangers", async () => {
    const own = { ...fakeRating, ownClients: new Set([person(9)]) };
    const logs = await logsOf([
      joining(1, 1, ["a"]),
      [posted(1, 1), posted(2, 1)],
      [completed(1, 30n, true), ended("JobSlashed", 2, { burnt: 1n })],
    ]);
    const record = applyLogs(genesisState, logs, () => 5, own)
      .state.providers.get(provider)
      ?.reputation.get("a");
    expect(record).to.deep.include({ paid: noWeights, failed: noWeights, ownServed: 1, ownFaults: 1 });
  });

  it("makes void at a return what spoke for a provider, and keeps what speaks against it", async () => {
    const leaving = [registryEvent("ProviderDeactivated", { provider })];
    const returning = [registryEvent("ProviderReactivated", { provider, generation: 2 })];
    const before = [
      joining(1, 1, ["a", "b"]),
      [posted(1, 1), posted(2, 1), posted(3, 2), posted(4, 1), posted(5, 1)],
      [completed(1, 30n, true), ended("JobSlashed", 2, { burnt: 1n }), completed(3, 30n, true)],
      leaving,
      returning,
    ];
    const returned = (await play(...before)).providers.get(provider)?.reputation;
    expect([...(returned?.keys() ?? [])]).to.deep.equal(["a"]);
    expect(returned?.get("a")).to.deep.include({ paid: noWeights, failed: weighing(10) });
    const later = await play(...before, [completed(4, 9n, true), ended("JobSlashed", 5, { burnt: 1n })]);
    const record = later.providers.get(provider)?.reputation.get("a");
    expect(record?.paid, "a success of the earlier registration").to.deep.equal(noWeights);
    expect(record?.failed.total, "a fault of the earlier registration").to.be.greaterThan(19);
  });

  it("remembers no more than 128 models of a provider, whatever it pays itself to serve", async () => {
    const models = Array.from({ length: 140 }, (_, index) => `m${index}`);
    const blocks = models.flatMap((model, index) => {
      const offer = joining(1, index + 1, [model]).slice(-1);
      const modelKey = modelKeyOf(model);
      const withdrawn = registryEvent("OfferingRemoved", { provider, modelKey, offeringId: index + 1 });
      return [[...offer, posted(index, index + 1), completed(index, 5n, true), ...(index === 0 ? [] : [withdrawn])]];
    });
    const reputation = (await play(joining(1, 1000, []), ...blocks)).providers.get(provider)?.reputation;
    expect(reputation?.size).to.equal(128);
    expect(reputation?.has("m0"), "offered still").to.equal(true);
    expect(reputation?.has("m1"), "withdrawn longest ago").to.equal(false);
    expect(reputation?.has("m139")).to.equal(true);
  });

  it("ignores an offering whose model id is not well-formed text, which no request can name", async () => {
    // Two ids of different bytes that decode to the same text.
    const [template] = joining(1, 7, ["?"]).slice(-1);
    if (template === undefined) throw new Error("no event");
    const bad = (byte: string, offeringId: number): FakeEvent => {
      const key = keccak256(hexToBytes(`0x${byte}`));
      const data = template.data.replace(/3f0{62}$/, `${byte}${"0".repeat(62)}`) as Hex;
      return {
        ...template,
        topics: [...template.topics.slice(0, 2), key],
        data: data.replace(/7/, String(offeringId)) as Hex,
      };
    };
    const state = await play(
      joining(1, 1, ["a"]),
      [bad("ff", 7), bad("fe", 8)],
      [posted(1, 7), completed(1, 5n, true)],
    );
    expect([...(state.providers.get(provider)?.offerings.keys() ?? [])]).to.deep.equal(["a"]);
    expect(state.providers.get(provider)?.reputation.size).to.equal(0);
  });

  it("is the same however the logs are cut into calls", async () => {
    const happening: fc.Arbitrary<Happening> = fc.record({
      kind: fc.constantFrom(...happeningKinds, "post", "end"),
      who: fc.nat(40),
      what: fc.nat(40),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 40 }), fc.array(fc.nat(10)), async (happenings, cuts) => {
        const market = new FakeMarket();
        const logs = await logsOf(happenings.map((each) => market.happen(each)));
        const whole = applyLogs(genesisState, logs, (blockNumber) => blockNumber, fakeRating);
        let state = genesisState;
        const rest = [...logs];
        for (const cut of cuts)
          ({ state } = applyLogs(state, rest.splice(0, cut), (blockNumber) => blockNumber, fakeRating));
        ({ state } = applyLogs(state, rest, (blockNumber) => blockNumber, fakeRating));
        expect(plainState(state)).to.deep.equal(plainState(whole.state));
      }),
      { numRuns: 50 },
    );
  });

  it("comes to the same whether replayed from the first event, or read at some block, followed, and joined with its history", async () => {
    const happening: fc.Arbitrary<Happening> = fc.record({
      kind: fc.constantFrom(...happeningKinds, "join", "post", "post", "end", "end"),
      who: fc.nat(40),
      what: fc.nat(40),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 60 }), fc.nat(60), async (happenings, cut) => {
        const market = new FakeMarket();
        const logs = await logsOf(happenings.map((each) => market.happen(each)));
        const timestampOf = (blockNumber: number): number => blockNumber;
        const replayed = applyLogs(genesisState, logs.slice(0, cut), timestampOf, fakeRating).state;
        // What the views tell at that block: everything but reputation and open jobs.
        const viewed = [...replayed.providers.values()].map((record) => ({ ...record, reputation: new Map() }));
        const live = applyLogs(stateFromRecords(viewed, false), logs.slice(cut), timestampOf, fakeRating).state;
        expect(plainState(joinHistory(live, replayed, fakeRating).state)).to.deep.equal(
          plainState(applyLogs(genesisState, logs, timestampOf, fakeRating).state),
        );
      }),
      { numRuns: 80 },
    );
  });
});
