import { expect } from "chai";
import { getAddress } from "viem";
import {
  earliestAllowable,
  isPending,
  oldestProposalTime,
  proposalFields,
  unknownMarkets,
} from "../../../provider/registration/market-notice.ts";

const market = getAddress(`0x${"11".repeat(20)}`);
const other = getAddress(`0x${"22".repeat(20)}`);
const week = 604_800;

describe("the notice of a new market", () => {
  it("counts to its last second, and no longer: a void proposal must not alarm for ever", () => {
    expect(isPending({ market, from: 300, until: 400 }, 100)).to.equal(true);
    expect(isPending({ market, from: 300, until: 400 }, 399)).to.equal(true);
    expect(isPending({ market, from: 300, until: 400 }, 400)).to.equal(false);
    expect(isPending({ market, from: 0, until: 0 }, 0), "not proposed").to.equal(false);
  });

  it("tells the earliest time, so that an alarm is not late by another proposal", () => {
    expect(earliestAllowable([])).to.equal(undefined);
    const proposals = [
      { market, from: 500, until: 600 },
      { market: other, from: 300, until: 400 },
    ];
    expect(earliestAllowable(proposals)).to.equal(300);
  });

  it("is looked for as far back as it can be valid, and not before the chain began", () => {
    expect(oldestProposalTime(5 * week, week)).to.equal(week);
    expect(oldestProposalTime(2 * week, week)).to.equal(0);
  });

  it("says by when to unbond: an unbonding that ends after the market may be allowed saves nothing", () => {
    const fields = proposalFields({ market, from: 3 * week, until: 4 * week }, week);
    expect(fields).to.include({
      market,
      allowableFrom: "1970-01-22T00:00:00.000Z",
      allowableUntil: "1970-01-29T00:00:00.000Z",
      unbondBy: "1970-01-15T00:00:00.000Z",
    });
    for (const call of ["deactivate()", "startUnbonding(", "withdrawStake()"]) expect(fields["cure"]).to.include(call);
  });

  it("is of markets that were not known, and of no other", () => {
    expect(unknownMarkets(new Set([market]), [market, other])).to.deep.equal([other]);
    expect(unknownMarkets(new Set([market, other]), [market])).to.deep.equal([]);
  });
});
