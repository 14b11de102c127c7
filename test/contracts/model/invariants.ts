import { isLive } from "./escrow-model.ts";
import type { State } from "./state.ts";

/** The first rule that a state of the model breaks; `undefined` when all hold. */
export function brokenInvariant(
  state: State,
  addresses: { readonly registry: string; readonly escrow: string },
  collateralFor: (payment: bigint) => bigint,
): string | undefined {
  const held = (account: string): bigint => state.tokens.get(account) ?? 0n;
  const live = [...state.jobs.values()].filter(isLive);

  const balances = sum([...state.accounts.values()].map(({ free, locked }) => free + locked));
  // More than that is what somebody sent without a deposit.
  if (held(addresses.escrow) < balances) return `the escrow holds ${held(addresses.escrow)} for ${balances}`;
  const stakes = sum([...state.providers.values()].map(({ stake, unbonding }) => stake + unbonding));
  if (held(addresses.registry) < stakes + state.burntStake) {
    return `the registry holds ${held(addresses.registry)} for ${stakes} and ${state.burntStake} burnt`;
  }
  for (const [account, { free, locked }] of state.accounts) {
    const wanted = sum(live.filter(({ client }) => client === account).map(({ maxPayment }) => maxPayment));
    if (locked !== wanted) return `${account} has ${locked} locked for jobs of ${wanted}`;
    if (free < 0n) return `${account} has ${free}`;
  }
  for (const [owner, row] of state.providers) {
    const jobs = live.filter(({ provider }) => provider === owner);
    if (row.openJobs !== BigInt(jobs.length)) return `${owner} counts ${row.openJobs} jobs, not ${jobs.length}`;
    const exposure = sum(jobs.map(({ maxPayment }) => collateralFor(maxPayment)));
    if (row.exposure !== exposure) return `${owner} holds ${row.exposure} for ${exposure}`;
  }
  return undefined;
}

function sum(values: readonly bigint[]): bigint {
  return values.reduce((total, value) => total + value, 0n);
}
