import { expect } from "chai";
import fc from "fast-check";
import { type EscrowPolicy, planEscrow } from "../../../gateway/jobs/escrow-plan.ts";
import { jobCollateral } from "../../../gateway/jobs/job-collateral.ts";
import { parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
import { candidateOf } from "../../../gateway/routing/pool/member.ts";
import type { OfferedTerms } from "../../../gateway/routing/stake.ts";
import { collateralFor } from "../../../protocol/money.ts";
import { addressOf, providerRecord, testModel } from "../routing/support/registry.ts";

/** Prices from nothing to the greatest that a registry takes, near the limits of exact doubles among them. */
const price = fc.oneof(
  fc.bigInt(0n, 10n),
  fc.bigInt(2n ** 53n - 3n, 2n ** 53n + 3n),
  fc.bigInt(0n, 10n ** 18n),
  fc.bigInt(0n, 2n ** 96n - 1n),
);
const context = fc.integer({ min: 1, max: 2 ** 21 });

const asked = fc.record({
  content: fc.string({ maxLength: 3000 }),
  max_tokens: fc.option(fc.integer({ min: 1, max: 200_000 }), { nil: undefined }),
  n: fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
});

const policy: fc.Arbitrary<EscrowPolicy> = fc.record({
  defaultMaxOutputTokens: fc.integer({ min: 1, max: 20_000 }),
  headroomRatio: fc.double({ min: 0, max: 10, noNaN: true }),
  unsignedLimitRatio: fc.constant(0.5),
  maxPerJob: fc.constant(undefined),
  minPayment: fc.oneof(fc.bigInt(0n, 3n), fc.bigInt(0n, 2n ** 90n)),
  collateralBps: fc.integer({ min: 0, max: 10_000 }),
});

function completionOf({
  content,
  ...rest
}: {
  content: string;
  max_tokens: number | undefined;
  n: number | undefined;
}) {
  const body = { model: testModel, messages: [{ role: "user", content }], ...rest };
  return parseCompletionRequest("chat", new TextEncoder().encode(JSON.stringify(body)));
}

describe("the collateral of a request's job", () => {
  it("lies between its bounds for all dearer and all cheaper terms: a bound on the wrong side would leave out who can serve", () => {
    fc.assert(
      fc.property(
        asked,
        policy,
        fc.array(fc.tuple(price, price, context), { minLength: 2, maxLength: 5 }),
        (...args) => {
          const [request, escrow, terms] = args;
          const collateral = jobCollateral(completionOf(request), escrow);
          const offers = terms.map(
            ([inputPrice, outputPrice, contextLength]): OfferedTerms => ({ inputPrice, outputPrice, contextLength }),
          );
          const least = (of: (offer: OfferedTerms) => number) => Math.min(...offers.map(of));
          const most = (of: (offer: OfferedTerms) => number) => Math.max(...offers.map(of));
          const bound = (pick: typeof least) =>
            [
              pick(({ inputPrice }) => Number(inputPrice)),
              pick(({ outputPrice }) => Number(outputPrice)),
              pick(({ contextLength }) => contextLength),
            ] as const;
          const [below, above] = [collateral.atLeast(...bound(least)), collateral.atMost(...bound(most))];
          for (const offer of offers) {
            // Compared as whole wei: a double of that size is one.
            expect(BigInt(Math.ceil(below)) <= collateral.at(offer), "not above").to.equal(true);
            expect(BigInt(Math.floor(above)) >= collateral.at(offer), "not below").to.equal(true);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("is told by the bounds to a millionth, so that few offers must be judged exactly", () => {
    const completion = completionOf({ content: "Hello", max_tokens: 1000, n: undefined });
    const terms = {
      defaultMaxOutputTokens: 1000,
      headroomRatio: 0.2,
      unsignedLimitRatio: 0.5,
      maxPerJob: undefined,
      minPayment: 1n,
      collateralBps: 5000,
    };
    const collateral = jobCollateral(completion, terms);
    const exact = collateral.at({ inputPrice: 10n ** 15n, outputPrice: 10n ** 16n, contextLength: 32_768 });
    expect(collateral.atLeast(1e15, 1e16, 32_768)).to.be.within(Number(exact) * (1 - 1e-6), Number(exact));
    expect(collateral.atMost(1e15, 1e16, 32_768)).to.be.within(Number(exact), Number(exact) * (1 + 1e-6));
  });

  it("is told anew for each offering, whichever was asked about before", () => {
    const few = fc.record({
      inputPrice: fc.constantFrom(10n ** 9n, 10n ** 10n),
      outputPrice: fc.constantFrom(10n ** 9n, 10n ** 10n),
      contextLength: fc.constantFrom(2000, 3000),
    });
    const completion = completionOf({ content: "Hello", max_tokens: undefined, n: undefined });
    fc.assert(
      fc.property(fc.array(few), policy, (offers, escrow) => {
        const asked = jobCollateral(completion, escrow);
        for (const offer of offers) expect(asked.at(offer)).to.equal(jobCollateral(completion, escrow).at(offer));
      }),
    );
  });

  it("is what the chain would hold of a post to the candidate alone", () => {
    fc.assert(
      fc.property(asked, policy, price, (request, escrow, inputPrice) => {
        const completion = completionOf(request);
        const models = { [testModel]: { inputPrice, outputPrice: 0n } };
        const record = providerRecord({ address: addressOf(1), models });
        const candidate = candidateOf(record, record.offerings.get(testModel) ?? expect.fail("no offering"));
        const plan = planEscrow(completion, [candidate], escrow);
        if (plan === undefined) return;
        expect(jobCollateral(completion, escrow).at(candidate)).to.equal(
          collateralFor(plan.maxPayment, escrow.collateralBps),
        );
      }),
    );
  });
});
