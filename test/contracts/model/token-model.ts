import { Refused, type State } from "./state.ts";

/** An honest ERC-20 with unlimited approvals. */
export function moveTokens(state: State, from: string, to: string, amount: bigint): void {
  const held = state.tokens.get(from) ?? 0n;
  if (held < amount) throw new Refused("ERC20InsufficientBalance", [from, held, amount]);
  state.tokens.set(from, held - amount);
  state.tokens.set(to, (state.tokens.get(to) ?? 0n) + amount);
}
