import type { Result } from "ethers";
import hre from "hardhat";

/**
 * The in-process chain that all contract tests share; each test starts from the snapshot of its fixture. Contracts may be
 * larger than a real chain allows, because the weakened ones are compiled without the optimizer (deployment.test.ts measures
 * the real ones).
 */
export const { ethers, ignition, networkHelpers } = await hre.network.create({
  // A market hands out accounts, and its fixture is shared by many tests.
  override: { allowUnlimitedContractSize: true, accounts: { count: 200 } },
});
export const { time } = networkHelpers;

/**
 * The state that a named function makes, from a snapshot if it was made before; the next block is a second after its last one. Without that
 * it would come as much later as the snapshot is old, and on a slow machine providers would have gone stale in between.
 */
export async function loadFixture<T>(fixture: () => Promise<T>): Promise<T> {
  const state = await networkHelpers.loadFixture(fixture);
  await time.setNextBlockTimestamp((await time.latest()) + 1);
  return state;
}

/** A struct as returned by a view, as an object of its fields. */
export function fieldsOf(struct: object): Record<string, unknown> {
  return (struct as Result).toObject();
}

/** Sends the transactions that `send` sends in one block, in the order in which they were sent. */
export async function inOneBlock<T>(send: () => Promise<T>): Promise<T> {
  await ethers.provider.send("evm_setAutomine", [false]);
  try {
    const sent = await send();
    await networkHelpers.mine();
    return sent;
  } finally {
    await ethers.provider.send("evm_setAutomine", [true]);
  }
}
