import { expect } from "chai";
import { breakDown, type Step } from "../../scripts/gas/breakdown.ts";

/** Steps of a trace from (instruction, own cost, depth), a call's cost without what the callee uses. */
function trace(
  start: number,
  rows: readonly (readonly [op: string, cost: number, depth: number, lent?: number])[],
): Step[] {
  let gas = start;
  const lenders: { readonly left: number; readonly depth: number }[] = [];
  return rows.map(([op, cost, depth, lent]) => {
    while ((lenders.at(-1)?.depth ?? 0) >= depth) {
      const lender = lenders.pop();
      if (lender !== undefined) gas += lender.left;
    }
    const step = { op, gas, gasCost: cost + (lent ?? 0), depth };
    gas -= cost;
    if (lent !== undefined) {
      lenders.push({ left: gas - lent, depth });
      gas = lent;
    }
    return step;
  });
}

describe("the breakdown of a transaction's gas", () => {
  it("adds up to the gas used and does not count what a callee used twice", () => {
    const steps = trace(100_000, [
      ["PUSH1", 3, 1],
      ["SLOAD", 2_100, 1],
      ["CALL", 2_620, 1, 50_000],
      ["SSTORE", 22_100, 2],
      ["RETURN", 0, 2],
      ["SLOAD", 100, 1],
      ["SSTORE", 2_900, 1],
      ["STATICCALL", 3_100, 1],
      ["LOG3", 1_500, 1],
      ["STOP", 0, 1],
    ]);
    const used = 21_000 + 16 + 4 + 3 + 2_100 + 2_620 + 22_100 + 100 + 2_900 + 3_100 + 1_500;
    const shares = breakDown({ gasUsed: used - 4_800, input: "0x0100", steps });

    expect(Object.fromEntries(shares.map(({ what, gas }) => [what, gas]))).to.deep.equal({
      intrinsic: 21_000,
      "call data": 20,
      "SSTORE, new slot": 22_100,
      "SSTORE, changed slot": 2_900,
      "SLOAD, first of a slot": 2_100,
      "SLOAD, again": 100,
      "first call of an account": 2_600,
      "calls, account known": 100,
      ecrecover: 3_000,
      events: 1_500,
      "other instructions": 23,
      refund: -4_800,
    });
    expect(shares.reduce((sum, { gas }) => sum + gas, 0)).to.equal(used - 4_800);
  });

  it("refuses a trace that ends inside a call instead of making up its cost", () => {
    const steps = trace(1_000, [
      ["CALL", 100, 1, 500],
      ["PUSH1", 3, 2],
    ]);
    expect(() => breakDown({ gasUsed: 30_000, input: "0x", steps })).to.throw("ends inside a call");
  });
});
