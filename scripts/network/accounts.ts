import { concatHex, type Hex, keccak256, stringToHex } from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";

/** First key of the mnemonic that every local development chain funds; public knowledge, worthless anywhere else. */
export const localFunderKey: Hex = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

/** A key and its account. */
export interface Participant {
  readonly role: string;
  readonly key: Hex;
  readonly account: PrivateKeyAccount;
}

/**
 * The key of one participant of the local network, derived from the funder's key and the role, so that a second start against the
 * same chain finds its providers and its money again.
 */
export function participant(funderKey: Hex, role: string): Participant {
  const key = keccak256(concatHex([funderKey, stringToHex(`t4t local network: ${role}`)]));
  return { role, key, account: privateKeyToAccount(key) };
}
