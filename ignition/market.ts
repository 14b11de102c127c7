import type { buildModule } from "@nomicfoundation/hardhat-ignition/modules";

type ModuleBuilder = Parameters<Parameters<typeof buildModule>[1]>[0];
type Token = NonNullable<Parameters<ModuleBuilder["call"]>[2]>[number];

/**
 * Registry and escrow for one token, with the escrow allowed as the registry's market; account 0 deploys and owns both.
 *
 * Parameters: amounts in the token's smallest unit, times in seconds, collateral in basis points of a job's largest payment.
 * The defaults suit a token with 6 decimals and jobs of at most a day.
 */
export function buildMarket(m: ModuleBuilder, token: Token) {
  const owner = m.getAccount(0);
  const registry = m.contract("ProviderRegistry", [
    token,
    owner,
    {
      minStake: m.getParameter("minStake", 10_000_000n),
      timeToLive: m.getParameter("timeToLive", 600n),
      unbondingPeriod: m.getParameter("unbondingPeriod", 604_800n),
      collateralBps: m.getParameter("collateralBps", 10_000n),
    },
  ]);
  const escrow = m.contract("JobEscrow", [
    registry,
    owner,
    {
      minPayment: m.getParameter("minPayment", 1_000n),
      minDuration: m.getParameter("minDuration", 60n),
      maxDuration: m.getParameter("maxDuration", 86_400n),
      ackWindow: m.getParameter("ackWindow", 30n),
      responseWindow: m.getParameter("responseWindow", 60n),
    },
  ]);
  m.call(registry, "setMarket", [escrow, true]);
  return { registry, escrow };
}
