import { expect } from "chai";
import * as fc from "fast-check";
import { type Hex, hexToBytes, keccak256 } from "viem";
import { joinHistory } from "../../../chain/registry-index/history.ts";
import { decodeLog, type IndexedLog } from "../../../chain/registry-index/logs.ts";
import { genesisState, type RegistryState, stateFromRecords } from "../../../chain/registry-index/state.ts";
import { applyLogs } from "../../../chain/registry-index/transition.ts";
import {
  escrowEvent,
  FakeChain,
  type FakeEvent,
  fakeContracts,
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

/** Each block's time is 100 times its number. */
async function play(...blocks: readonly (readonly FakeEvent[])[]): Promise<RegistryState> {
  return applyLogs(genesisState, await logsOf(blocks), (blockNumber) => blockNumber * 100).state;
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
      [completed(1, 30n, true), completed(2, 99n, false), completed(3, 7n, true)],
      [
        ended("JobSlashed", 4, { burnt: 1n }),
        ended("JobDeclined", 5),
        ended("JobExpired", 6),
        ended("JobCancelled", 7),
      ],
    );
    expect(state.providers.get(provider)?.reputation).to.deep.equal(
      new Map([
        ["a", { completed: 1, failed: 0, earned: 30n }],
        ["b", { completed: 1, failed: 1, earned: 7n }],
      ]),
    );
    expect(state.jobs.size, "jobs remembered after their end").to.equal(0);
  });

  it("rates a job under the model of its own record, also when the price changed since", async () => {
    const reprice = joining(1, 8, ["a"]).slice(-1);
    const state = await play(joining(1, 1, ["a"]), [posted(1, 1)], reprice, [completed(1, 5n, true)]);
    expect(state.providers.get(provider)?.reputation.get("a")?.earned).to.equal(5n);
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
        const whole = applyLogs(genesisState, logs, (blockNumber) => blockNumber);
        let state = genesisState;
        const rest = [...logs];
        for (const cut of cuts) ({ state } = applyLogs(state, rest.splice(0, cut), (blockNumber) => blockNumber));
        ({ state } = applyLogs(state, rest, (blockNumber) => blockNumber));
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
        const replayed = applyLogs(genesisState, logs.slice(0, cut), timestampOf).state;
        // What the views tell at that block: everything but reputation and open jobs.
        const viewed = [...replayed.providers.values()].map((record) => ({ ...record, reputation: new Map() }));
        const live = applyLogs(stateFromRecords(viewed, false), logs.slice(cut), timestampOf).state;
        expect(plainState(joinHistory(live, replayed).state)).to.deep.equal(
          plainState(applyLogs(genesisState, logs, timestampOf).state),
        );
      }),
      { numRuns: 80 },
    );
  });
});
