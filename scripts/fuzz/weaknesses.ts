/** One protection of the contracts taken away: in a file, a text that is there once, and what stands there instead. */
export interface Weakness {
  readonly name: string;
  readonly file: string;
  readonly text: string;
  readonly instead: string;
}

const ESCROW = "contracts/JobEscrow.sol";
const REGISTRY = "contracts/ProviderRegistry.sol";
const ACCOUNT = "contracts/types/Account.sol";
const STATE = "contracts/types/ProviderState.sol";

/** What a campaign must find: if it does not, it holds nothing. */
export const weaknesses: readonly Weakness[] = [
  {
    name: "a cancelled job keeps its slot",
    file: ESCROW,
    text: "        _freeSlots(provider, 1, _collateral(state.maxPayment()), false);\n        emit JobCancelled",
    instead: "        emit JobCancelled",
  },
  {
    name: "an expired job frees its slot twice",
    file: ESCROW,
    text: "            _refund(job, state, JobStatus.Expired);\n            _addToRun(run, state);",
    instead:
      "            _refund(job, state, JobStatus.Expired);\n            _addToRun(run, state);\n            _addToRun(run, state);",
  },
  {
    name: "a batch pays the same job twice",
    file: ESCROW,
    text: "        job.state = NO_STATE;\n        _addToRun(run, state);",
    instead: "        _addToRun(run, state);",
  },
  {
    name: "a payment is rounded up",
    file: ESCROW,
    text: "uint256(outputTokens) * outputPrice) / PRICE_UNIT;",
    instead: "uint256(outputTokens) * outputPrice + PRICE_UNIT - 1) / PRICE_UNIT;",
  },
  {
    name: "a slash needs no consent",
    file: ESCROW,
    text: "if (!_isSignedByProvider(provider, state.postedAt(), digest, acknowledgement)) {",
    instead: "if (digest == 0 || acknowledgement.length == 0) {",
  },
  {
    name: "a claim without a receipt is good for everything",
    file: ESCROW,
    text: "return (payer, payer.account, party.unsignedLimit());",
    instead: "return (payer, payer.account, state.maxPayment());",
  },
  {
    name: "a refund leaves one unit locked",
    file: ACCOUNT,
    text: "Account.unwrap(account) - (uint256(amount) << LOCKED_SHIFT) + refund);",
    instead: "Account.unwrap(account) - (uint256(amount - 1) << LOCKED_SHIFT) + refund);",
  },
  {
    name: "a post passes the cap by one",
    file: REGISTRY,
    text: "if (uint256(state.openJobs()) + count > cap) return (Refusal.AtCapacity, 0);",
    instead: "if (uint256(state.openJobs()) + count > cap + 1) return (Refusal.AtCapacity, 0);",
  },
  {
    name: "a former operator still settles",
    file: REGISTRY,
    text: "        _setPrincipal(operator, NO_PRINCIPAL);\n",
    instead: "",
  },
  {
    name: "stake that is leaving is safe from a slash",
    file: REGISTRY,
    text: "uint128 fromUnbonding = collateral - fromStake < unbonding ? collateral - fromStake : unbonding;",
    instead: "uint128 fromUnbonding = 0;",
  },
  {
    name: "a freed slot does not give its collateral back",
    file: STATE,
    text: "freed + (uint256(collateral) << HEADROOM_SHIFT)",
    instead: "freed + (uint256(collateral - collateral) << HEADROOM_SHIFT)",
  },
  {
    name: "a cancel request is final before it could be answered",
    file: ESCROW,
    text: "if (block.timestamp < until) revert ResponseWindowOpen(jobId, until);",
    instead: "if (block.timestamp + 1 < until) revert ResponseWindowOpen(jobId, until);",
  },
];
