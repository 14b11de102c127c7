import type { Address } from "viem";

/** The registry's notice of a new market, which would have power over every provider's slots and stake. Chain time, Unix seconds. */
export interface MarketProposal {
  readonly market: Address;
  /** First second in which it can be allowed. */
  readonly from: number;
  /** First second in which it no longer can. */
  readonly until: number;
}

/** Whether the market can still be allowed, now or later. The registry tells `from` 0 for a market that is not proposed. Pure. */
export function isPending({ from, until }: MarketProposal, chainTime: number): boolean {
  return from !== 0 && chainTime < until;
}

/** Earliest time at which one of these markets can be allowed; undefined when there is none. */
export function earliestAllowable(proposals: readonly MarketProposal[]): number | undefined {
  return proposals.length === 0 ? undefined : Math.min(...proposals.map(({ from }) => from));
}

/** How long before now a proposal that is not void can have been made, in unbonding periods: three of notice, one to use it in. */
const proposalPeriods = 4;

/** Chain time before which every proposal is void by now, in seconds; 0 when the chain is younger. */
export function oldestProposalTime(chainTime: number, unbondingPeriod: number): number {
  return Math.max(0, chainTime - proposalPeriods * unbondingPeriod);
}

/** What a person needs to know of a proposal, as fields of a log line. Times in ISO 8601. */
export function proposalFields(proposal: MarketProposal, unbondingPeriod: number): Readonly<Record<string, string>> {
  const { market, from, until } = proposal;
  return {
    market,
    allowableFrom: isoTime(from),
    allowableUntil: isoTime(until),
    // Begun later, an unbonding ends when the market may have been allowed, and unbonding stake still answers for slashes.
    unbondBy: isoTime(from - unbondingPeriod),
    cure:
      "judge the contract at this address. To leave, the owner calls on the registry: deactivate(), after which no market can reach the stake " +
      "once no job is open; startUnbonding(all that is not unbonding) by unbondBy, withdrawStake() one unbonding period later. Leave T4T_REACTIVATE unset",
  };
}

/** Those of the registry's markets that were not known. */
export function unknownMarkets(known: ReadonlySet<Address>, markets: readonly Address[]): readonly Address[] {
  return markets.filter((market) => !known.has(market));
}

function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
