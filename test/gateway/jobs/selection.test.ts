import { expect } from "chai";
import { GatewayStatistics } from "../../../gateway/jobs/gateway-statistics.ts";
import type { JobRequest } from "../../../gateway/jobs/job-request.ts";
import { Selector } from "../../../gateway/jobs/selection.ts";
import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { createPolicy } from "../../../gateway/routing/select.ts";
import { parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
import { addressOf, type ProviderSketch, publish, testModel } from "../routing/support/registry.ts";
import { seeded } from "../routing/support/request.ts";
import { ManualClock } from "../support/manual-clock.ts";

const body = { model: testModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 5 };
const completion = parseCompletionRequest("chat", new TextEncoder().encode(JSON.stringify(body)));

function scene(policy: PolicyConfig, openJobs: readonly number[], change: Partial<ProviderSketch> = {}) {
  const clock = new ManualClock();
  const statistics = new GatewayStatistics(clock);
  const published = publish(
    openJobs.map((open, index) => ({
      address: addressOf(index + 1),
      maxConcurrentJobs: 2,
      openJobs: open,
      ...(index > 0 ? change : {}),
    })),
  );
  let looks = 0;
  openJobs.forEach((_, index) => {
    const model = {
      model: testModel,
      generation: "g1",
      lastMeanInputTps: 1000,
      maxInputTps: 1000,
      running: 0,
      queuedInputTokens: 0,
    };
    statistics.report(addressOf(index + 1), {
      provider: addressOf(index + 1),
      issuedAt: clock.now(),
      draining: false,
      maxConcurrentJobs: 2,
      running: 0,
      models: [model],
    });
  });
  const request: JobRequest = {
    id: "0x01",
    nonce: 1n,
    completion,
    requestId: "r",
    policy: createPolicy(policy),
    affinityKey: "conversation",
    sequence: 1,
    arrivedAt: clock.monotonic(),
    budgetMs: 60_000,
    waitLimitMs: 60_000,
  };
  const selector = new Selector(
    {
      published: () => {
        looks += 1;
        return published;
      },
      statistics,
      clock,
      random: seeded(1),
      allowPrivateEndpoints: false,
      maxPrice: undefined,
      escrow: () => ({
        defaultMaxOutputTokens: 100,
        headroomRatio: 0.2,
        unsignedLimitRatio: 0.5,
        maxPerJob: undefined,
        minPayment: 1n,
        collateralBps: 10_000,
      }),
    },
    request,
  );
  return { clock, statistics, selector, looks: () => looks };
}

describe("the selector of a request", () => {
  it("tells the line when the wait alone opens the next provider", () => {
    const patient = { name: "pulsar_wait_and_widen", band_patience_ms: 400 } as const;
    const owner = scene(patient, [0, 0]).selector.take();
    if (owner.kind !== "granted") throw new Error("the owner was free");
    const isFirst = owner.grant.lease.provider === addressOf(1);
    const { clock, selector } = scene(patient, isFirst ? [2, 0] : [0, 2]);
    clock.advance(100);
    expect(selector.take()).to.deep.equal({ kind: "busy", recheckMs: 300 });
    clock.advance(300);
    expect(selector.take().kind).to.equal("granted");
  });

  it("passes over bad endpoints some at a time, however many there are: to meet thousands in one turn would stop the gateway", () => {
    const bad = { endpoint: "http://10.0.0.1", models: { [testModel]: { inputPrice: 1n, outputPrice: 1n } } };
    const { selector, looks } = scene(
      { name: "cheapest" },
      Array.from({ length: 1100 }, () => 0),
      bad,
    );
    let turns = 0;
    let taken = selector.take();
    for (; taken.kind === "busy" && turns < 50; taken = selector.take()) {
      turns += 1;
      expect(taken.recheckMs).to.equal(20);
      expect(looks()).to.be.at.most(16 * turns);
      expect(selector.look()?.ranked).to.deep.equal([]);
    }
    if (taken.kind !== "granted") throw new Error("the one good provider was not found");
    expect(taken.grant.lease.provider).to.equal(addressOf(1));
    expect(turns).to.be.within(5, 20);
  });

  it("looks again soon while a status alone keeps it waiting, as a newer status wakes nobody in line", () => {
    const { statistics, selector } = scene({ name: "pulsar", consider_kv_free_tokens: true }, [0]);
    expect(selector.take()).to.deep.equal({ kind: "busy", recheckMs: 250 });
    statistics.noteDraining(addressOf(1));
    expect(selector.take()).to.deep.equal({ kind: "busy", recheckMs: 250 });
    expect(scene({ name: "pulsar" }, [2]).selector.take(), "slots are told by the chain").to.deep.equal({
      kind: "busy",
    });
  });

  it("counts the prompt as queued at the chosen provider before its status can say so", () => {
    const { statistics, selector } = scene({ name: "wait_and_widen" }, [0]);
    const take = selector.take();
    if (take.kind !== "granted") throw new Error("the provider was free");
    expect(statistics.pendingInputTokens(addressOf(1), testModel)).to.equal(completion.inputTokensEstimate);
    take.grant.lease.end({ outcome: "aborted", durationMs: 0 });
    expect(statistics.pendingInputTokens(addressOf(1), testModel)).to.equal(0);
  });
});
