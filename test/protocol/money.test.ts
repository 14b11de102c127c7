import { expect } from "chai";
import * as fc from "fast-check";
import {
  collateralFor,
  escrowFor,
  inputTokensBound,
  inputTokensEstimate,
  paymentFor,
  settlementFor,
} from "../../protocol/money.ts";

const price = fc.bigInt({ min: 0n, max: (1n << 96n) - 1n });
const prices = fc.record({ inputPrice: price, outputPrice: price });
const tokens = fc.nat({ max: 10_000_000 });
const usage = fc.record({ inputTokens: tokens, outputTokens: tokens });

describe("paymentFor", () => {
  it("is the exact price per million, rounded down against the claimant", () => {
    expect(
      paymentFor({ inputPrice: 1_000_000n, outputPrice: 2_000_000n }, { inputTokens: 3, outputTokens: 4 }),
    ).to.equal(11n);
    expect(paymentFor({ inputPrice: 1n, outputPrice: 0n }, { inputTokens: 999_999, outputTokens: 0 })).to.equal(0n);
    expect(paymentFor({ inputPrice: 1n, outputPrice: 0n }, { inputTokens: 1_000_000, outputTokens: 0 })).to.equal(1n);
    fc.assert(
      fc.property(prices, usage, (p, u) => {
        const exact = BigInt(u.inputTokens) * p.inputPrice + BigInt(u.outputTokens) * p.outputPrice;
        const paid = paymentFor(p, u);
        expect(paid * 1_000_000n <= exact && exact < (paid + 1n) * 1_000_000n).to.equal(true);
      }),
    );
  });

  it("never pays more for a job that is split in two", () => {
    fc.assert(
      fc.property(prices, usage, usage, (p, a, b) => {
        const together = paymentFor(p, {
          inputTokens: a.inputTokens + b.inputTokens,
          outputTokens: a.outputTokens + b.outputTokens,
        });
        expect(paymentFor(p, a) + paymentFor(p, b) <= together).to.equal(true);
      }),
    );
  });
});

describe("settlementFor", () => {
  it("never exceeds what the job locked, and is the payment where that fits", () => {
    fc.assert(
      fc.property(prices, usage, price, (p, u, maxPayment) => {
        const paid = settlementFor(p, u, maxPayment);
        expect(paid <= maxPayment).to.equal(true);
        if (paymentFor(p, u) <= maxPayment) expect(paid).to.equal(paymentFor(p, u));
      }),
    );
  });
});

describe("escrowFor", () => {
  it("covers every usage within the bounds it was given, so that an honest provider is always paid in full", () => {
    const size = fc.record({
      inputTokens: tokens,
      outputTokens: tokens,
      prices,
      headroomRatio: fc.double({ min: 0, max: 10, noNaN: true }),
      contextLength: fc.integer({ min: 1, max: 10_000_000 }),
    });
    fc.assert(
      fc.property(
        size,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (s, a, b) => {
          const used = {
            inputTokens: Math.floor(a * Math.min(s.inputTokens, s.contextLength)),
            outputTokens: Math.floor(b * Math.min(s.outputTokens, s.contextLength)),
          };
          expect(paymentFor(s.prices, used) <= escrowFor(s)).to.equal(true);
        },
      ),
    );
  });

  it("adds exactly the headroom, and never locks nothing", () => {
    const base = {
      inputTokens: 0,
      outputTokens: 1000,
      prices: { inputPrice: 0n, outputPrice: 1_000_000n },
      contextLength: 4096,
    };
    expect(escrowFor({ ...base, headroomRatio: 0 })).to.equal(1000n);
    expect(escrowFor({ ...base, headroomRatio: 0.2 })).to.equal(1200n);
    expect(escrowFor({ ...base, outputTokens: 0, headroomRatio: 0 })).to.equal(1n);
    expect(escrowFor({ ...base, outputTokens: 1_000_000, headroomRatio: 0 })).to.equal(4096n);
  });
});

describe("collateralFor", () => {
  it("is the part in basis points, rounded down as the registry does, so that nobody is left out who would be taken", () => {
    expect([0, 1, 5_000, 9_999, 10_000].map((bps) => collateralFor(101n, bps))).to.deep.equal([
      0n,
      0n,
      50n,
      100n,
      101n,
    ]);
  });
});

describe("token estimates", () => {
  it("bound above, and estimate within the bound", () => {
    fc.assert(
      fc.property(tokens, (bytes) => {
        expect(inputTokensEstimate(bytes) <= inputTokensBound(bytes)).to.equal(true);
        expect(inputTokensEstimate(bytes) * 4 >= bytes).to.equal(true);
      }),
    );
  });
});
