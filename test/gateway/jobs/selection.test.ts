import { expect } from "chai";
import { GatewayStatistics } from "../../../gateway/jobs/gateway-statistics.ts";
import type { JobRequest } from "../../../gateway/jobs/job-request.ts";
import { Selector } from "../../../gateway/jobs/selection.ts";
import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { createPolicy } from "../../../gateway/routing/select.ts";
import { parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
import { addressOf, publish, testModel } from "../routing/support/registry.ts";
import { seeded } from "../routing/support/request.ts";
import { ManualClock } from "../support/manual-clock.ts";

const body = { model: testModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 5 };
const completion = parseCompletionRequest("chat", new TextEncoder().encode(JSON.stringify(body)));

/** @param endpointOf By the index of a provider; absent: one that may be called. @param priceOf Absent: all the same. */
function scene(
  policy: PolicyConfig,
  openJobs: readonly number[],
  endpointOf?: (index: number) => string,
  priceOf?: (index: number) => bigint,
) {
  const clock = new ManualClock();
  const statistics = new GatewayStatistics(clock);
  const published = publish(
    openJobs.map((open, index) => ({
      address: addressOf(index + 1),
      maxConcurrentJobs: 2,
      openJobs: open,
      ...(endpointOf === undefined ? {} : { endpoint: endpointOf(index) }),
      ...(priceOf === undefined ? {} : { models: { [testModel]: { inputPrice: priceOf(index) } } }),
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

const allFree = (length: number): number[] => Array.from({ length }, () => 0);

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

  for (const name of ["cheapest", "least_inflight", "pulsar", "consistent_hash"] as const) {
    it(`finds those that may be called among thousands with private addresses in two decisions, not in thousands (${name})`, () => {
      const isPublic = (index: number): boolean => index === 3 || index === 877;
      const endpointOf = (index: number): string =>
        isPublic(index) ? "https://p.example" : `http://10.0.0.${index % 256}`;
      const { selector, looks } = scene({ name }, allFree(1000), endpointOf);
      const take = selector.take();
      if (take.kind !== "granted") throw new Error("two may be called");
      expect(["https://p.example"]).to.include(take.grant.plan.candidates[0]?.endpoint);
      expect(take.grant.selection.ranked.map(({ endpoint }) => endpoint)).to.satisfy((all: readonly string[]) =>
        all.every((endpoint) => endpoint === "https://p.example"),
      );
      expect(looks()).to.be.lessThan(6);
    });
  }

  it("finds the one that may be called behind more than a thousand cheaper ones: anyone can register those", () => {
    const endpointOf = (index: number): string => (index === 0 ? "https://p.example" : "http://10.0.0.1");
    const priceOf = (index: number): bigint => (index === 0 ? 100n : 1n);
    const { selector, looks } = scene({ name: "cheapest" }, allFree(3000), endpointOf, priceOf);
    let turns = 1;
    let taken = selector.take();
    for (; taken.kind === "busy" && turns < 50; turns += 1) {
      expect(taken.recheckMs).to.be.oneOf([20, 250]);
      taken = selector.take();
    }
    if (taken.kind !== "granted") throw new Error("the one good provider was not found");
    expect(taken.grant.lease.provider).to.equal(addressOf(1));
    expect(turns).to.be.lessThan(25);
    expect(looks()).to.be.at.most(4 * turns);
  });

  it("tells at once that nobody can serve when none may be called", () => {
    const { selector } = scene({ name: "least_inflight" }, [0, 0, 2], () => "http://127.0.0.1:8080");
    expect(selector.take()).to.deep.equal({ kind: "none" });
  });
});
