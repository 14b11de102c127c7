import { expect } from "chai";
import fc from "fast-check";
import type { EscrowPolicy } from "../../../gateway/jobs/escrow-plan.ts";
import { jobCollateral } from "../../../gateway/jobs/job-collateral.ts";
import { offerClass } from "../../../gateway/jobs/offer-classes.ts";
import { parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
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
        const { snapshot } = publish(sketches);
        const sizes = [one, other].map(({ characters, output }) => sizeOf(characters, output));
        const [a, b] = sizes.map((it) => offerClass(snapshot, testModel, it));
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
    const { snapshot } = publish([1, 2, 3].map((index) => ({ address: addressOf(index), models })));
    const classes = [1, 10, 100, 1000].map((output) => offerClass(snapshot, testModel, sizeOf(3 * output, output)));
    expect(new Set(classes).size).to.equal(1);
  });

  it("is another one where a stake is enough for the smaller request alone, and the size itself without a model", () => {
    const models = { [testModel]: { inputPrice: 10n ** 12n, outputPrice: 10n ** 12n } };
    const small = sizeOf(10, 10);
    const large = sizeOf(10, 400);
    const stake = small.collateral.at({ inputPrice: 10n ** 12n, outputPrice: 10n ** 12n, contextLength: 32_768 });
    const { snapshot } = publish([{ address: addressOf(1), stake, models }]);
    expect(offerClass(snapshot, testModel, small)).to.not.equal(offerClass(snapshot, testModel, large));
    expect(offerClass(snapshot, undefined, small)).to.not.equal(offerClass(snapshot, undefined, large));
  });
});
