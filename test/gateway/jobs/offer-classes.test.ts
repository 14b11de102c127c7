import { expect } from "chai";
import fc from "fast-check";
import type { EscrowPolicy } from "../../../gateway/jobs/escrow-plan.ts";
import { jobCollateral } from "../../../gateway/jobs/job-collateral.ts";
import { offerClass } from "../../../gateway/jobs/offer-classes.ts";
import { parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
import { MutableRegistry } from "../routing/support/mutable-registry.ts";
import { type ProviderSketch, addressOf, publish, testModel } from "../routing/support/registry.ts";

const escrow: EscrowPolicy = {
  defaultMaxOutputTokens: 100,
  headroomRatio: 0.2,
  unsignedLimitRatio: 0.5,
  maxPerJob: undefined,
  minPayment: 1n,
  collateralBps: 5000,
};

function sizeOf(characters: number, outputTokens: number) {
  const body = {
    model: testModel,
    messages: [{ role: "user", content: "x".repeat(characters) }],
    max_tokens: outputTokens,
  };
  const completion = parseCompletionRequest("chat", new TextEncoder().encode(JSON.stringify(body)));
  return {
    inputTokens: completion.inputTokensEstimate,
    outputTokens,
    collateral: jobCollateral(completion, escrow),
  };
}

const provider = fc.record({
  inputPrice: fc.constantFrom(10n ** 12n, 2n * 10n ** 12n),
  contextLength: fc.constantFrom(300, 1000, 4000),
  stake: fc.oneof(fc.constant(10n ** 24n), fc.bigInt(0n, 4n * 10n ** 8n)),
  active: fc.boolean(),
});
const size = fc.record({ characters: fc.integer({ min: 0, max: 2000 }), output: fc.integer({ min: 1, max: 500 }) });

describe("the class of offers that a request fits", () => {
  it("is the same for two requests only where the same providers have context and stake for both: else one held up the other", () => {
    let shared = 0;
    fc.assert(
      fc.property(fc.array(provider, { maxLength: 5 }), size, size, (offered, one, other) => {
        const sketches = offered.map(({ inputPrice, contextLength, stake, active }, index): ProviderSketch => {
          const models = { [testModel]: { inputPrice, outputPrice: inputPrice, contextLength } };
          return { address: addressOf(index + 1), stake, active, models };
        });
        const published = publish(sketches);
        const { snapshot } = published;
        const sizes = [one, other].map(({ characters, output }) => sizeOf(characters, output));
        const [a, b] = sizes.map((it) => offerClass(published, testModel, it));
        if (a !== b) return;
        shared += 1;
        const [fitsA, fitsB] = sizes.map(({ inputTokens, outputTokens, collateral }) =>
          snapshot.offers(testModel).map(({ provider: { stake, active }, offering }) => {
            const hasContext = offering.contextLength >= inputTokens + outputTokens;
            return active && hasContext && stake >= collateral.at(offering);
          }),
        );
        expect(fitsA).to.deep.equal(fitsB);
      }),
      { numRuns: 3000 },
    );
    expect(shared, "many requests share a class: that is what keeps the line short").to.be.greaterThan(300);
  });

  it("is one for all that every provider has stake and context for, whatever their size", () => {
    const models = { [testModel]: { contextLength: 100_000 } };
    const published = publish([1, 2, 3].map((index) => ({ address: addressOf(index), models })));
    const classes = [1, 10, 100, 1000].map((output) => offerClass(published, testModel, sizeOf(3 * output, output)));
    expect(new Set(classes).size).to.equal(1);
  });

  it("is another one where a stake is enough for the smaller request alone, and the size itself without a model", () => {
    const models = { [testModel]: { inputPrice: 10n ** 12n, outputPrice: 10n ** 12n } };
    const small = sizeOf(10, 10);
    const large = sizeOf(10, 400);
    const stake = small.collateral.at({ inputPrice: 10n ** 12n, outputPrice: 10n ** 12n, contextLength: 32_768 });
    const published = publish([{ address: addressOf(1), stake, models }]);
    expect(offerClass(published, testModel, small)).to.not.equal(offerClass(published, testModel, large));
    expect(offerClass(published, undefined, small)).to.not.equal(offerClass(published, undefined, large));
  });

  it("means the same in every snapshot: a long request that came early would else hold up a short one that came later", () => {
    const long = { ...sizeOf(10, 10), inputTokens: 50_000 };
    const short = sizeOf(10, 10);
    const withContext = (contextLength: number) => ({ models: { [testModel]: { contextLength } } });
    const before = publish([{ address: addressOf(1), ...withContext(100_000) }]);
    const after = publish([{ address: addressOf(1), ...withContext(1000) }]);
    expect(offerClass(before, testModel, long)).to.not.equal(offerClass(after, testModel, short));
  });

  it("is worked out anew only when offers change: 100,000 of them would else stop the gateway with every block", () => {
    const registry = new MutableRegistry();
    const contexts = [1000, 2000];
    const put = (index: number, openJobs: number, stake = 10n ** 24n, active = true) => {
      const models = { [testModel]: { contextLength: contexts[index]! } };
      registry.put({ address: addressOf(index + 1), openJobs, maxConcurrentJobs: 2, stake, active, models });
    };
    let gathered = 0;
    const ask = () => {
      const { snapshot, derived } = registry.publish();
      const counting = { ...snapshot, offers: (modelId: string) => (gathered++, snapshot.offers(modelId)) };
      return offerClass({ snapshot: counting, derived }, testModel, sizeOf(10, 100));
    };
    put(0, 0);
    put(1, 0);
    const first = ask();
    put(0, 2);
    put(1, 1);
    expect(ask()).to.equal(first);
    expect(gathered, "only slots changed").to.equal(1);
    put(0, 2, 0n);
    expect(ask(), "a stake changed").to.not.equal(first);
    put(0, 2);
    expect(ask()).to.equal(first);
    put(0, 2, 10n ** 24n, false);
    expect(ask(), "one left").to.not.equal(first);
  });
});
