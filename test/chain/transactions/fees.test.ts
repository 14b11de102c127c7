import { expect } from "chai";
import fc from "fast-check";
import { feesFor, replacementFees } from "../../../chain/transactions/fees.ts";

const wei = fc.bigInt({ min: 0n, max: 10n ** 12n });

describe("fees of a transaction", () => {
  it("never pass the cap and never have a tip above the whole", () => {
    fc.assert(
      fc.property(wei, wei, fc.bigInt({ min: 1n, max: 10n ** 12n }), (baseFee, tip, cap) => {
        const fees = feesFor(baseFee, tip, cap);
        expect(fees.maxFeePerGas <= cap).to.equal(true);
        expect(fees.maxPriorityFeePerGas <= fees.maxFeePerGas).to.equal(true);
      }),
    );
  });

  it("of a replacement are more than 10 % above the last ones, or there is no replacement: a node would refuse it", () => {
    fc.assert(
      fc.property(wei, wei, wei, fc.bigInt({ min: 1n, max: 10n ** 12n }), (max, tip, market, cap) => {
        const last = { maxFeePerGas: max, maxPriorityFeePerGas: tip < max ? tip : max };
        const fees = replacementFees(last, feesFor(market, market, cap), cap);
        if (fees === undefined) {
          expect(max + max / 8n + 1n > cap || market > 0n).to.equal(true);
          return;
        }
        expect(fees.maxFeePerGas * 10n > last.maxFeePerGas * 11n || last.maxFeePerGas < 10n).to.equal(true);
        expect(
          fees.maxPriorityFeePerGas * 10n > last.maxPriorityFeePerGas * 11n || last.maxPriorityFeePerGas < 10n,
        ).to.equal(true);
        expect(fees.maxFeePerGas <= cap).to.equal(true);
      }),
    );
  });
});
