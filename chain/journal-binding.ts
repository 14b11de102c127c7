import type { Address, Hex, PublicClient } from "viem";
import { chainUnavailableIn } from "./rpc-errors.ts";
import { WrongChainError } from "./verify.ts";

/** The journal belongs to another chain, escrow or wallet. No waiting cures that, so a program refuses to run. */
export class ForeignJournalError extends WrongChainError {}

/** What the binding needs of the journal. */
export interface BoundJournal {
  getValue(key: string): Promise<string | undefined>;
  setValue(key: string, value: string): Promise<void>;
}

/** What a journal is about. */
interface Binding {
  readonly chainId: number;
  /** Hash of the first block, which tells a chain that was started anew from the one before; null where the node does not show it. */
  readonly firstBlock: Hex | null;
  readonly escrow: Address;
  readonly wallet: Address;
}

const bindingKey = "chain_binding";

/**
 * Binds a journal to chain, escrow and wallet at its first use, and holds it to them from then on: looked at from elsewhere, its jobs
 * would seem never to have been posted and would be closed, with their money still locked. Call before anything acts on the journal,
 * and after the chain was verified.
 *
 * @param dataDir For the message.
 * @throws ForeignJournalError saying what differs and what to do; ChainUnavailableError when the chain cannot be asked.
 */
export async function bindJournal(options: {
  readonly journal: BoundJournal;
  readonly client: PublicClient;
  readonly chainId: number;
  readonly escrow: Address;
  readonly wallet: Address;
  readonly dataDir: string;
}): Promise<void> {
  const { journal, client, chainId, escrow, wallet, dataDir } = options;
  const now: Binding = { chainId, firstBlock: await firstBlockOf(client), escrow, wallet };
  const stored = await journal.getValue(bindingKey);
  if (stored === undefined) {
    await journal.setValue(bindingKey, JSON.stringify(now));
    return;
  }
  const bound = JSON.parse(stored) as Binding;
  const difference = differenceOf(bound, now);
  if (difference !== undefined) {
    throw new ForeignJournalError(
      `the journal in ${dataDir} is of ${difference}: jobs in it may still hold money there. Go back to that until they have ended, or set T4T_DATA_DIR to another folder`,
    );
  }
  if (bound.firstBlock === null && now.firstBlock !== null)
    await journal.setValue(bindingKey, JSON.stringify({ ...bound, firstBlock: now.firstBlock }));
}

/** In what a journal's binding differs from the settings, for a person; undefined when it does not. Pure. */
function differenceOf(bound: Binding, now: Binding): string | undefined {
  if (bound.chainId !== now.chainId)
    return `chain ${bound.chainId}, but T4T_RPC_URL and T4T_DEPLOYMENT_FILE (or T4T_CHAIN_ID) lead to chain ${now.chainId}`;
  if (bound.firstBlock !== null && now.firstBlock !== null && bound.firstBlock !== now.firstBlock)
    return `a chain that begins with block ${bound.firstBlock}, but the one at T4T_RPC_URL begins with ${now.firstBlock} (a chain started anew is another chain)`;
  if (!isSame(bound.escrow, now.escrow))
    return `the escrow ${bound.escrow}, but T4T_DEPLOYMENT_FILE (or T4T_ESCROW_ADDRESS) names ${now.escrow}`;
  if (!isSame(bound.wallet, now.wallet))
    return `the wallet ${bound.wallet}, but T4T_PRIVATE_KEY (or T4T_PRIVATE_KEY_FILE) is that of ${now.wallet}`;
  return undefined;
}

function isSame(one: Address, other: Address): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

async function firstBlockOf(client: PublicClient): Promise<Hex | null> {
  try {
    return (await client.getBlock({ blockNumber: 0n })).hash;
  } catch (error) {
    if (chainUnavailableIn(error) !== undefined) throw error;
    return null;
  }
}
