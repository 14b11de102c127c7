import type { BaseContract } from "ethers";
import type { HookToken, TestToken } from "../../../types/index.ts";
import type { Stage } from "./attack.ts";
import { ethers } from "./chain.ts";
import { type Account, type Market, PAYMENT, type Provider } from "./market.ts";

/** Numbers of `HostileClient.Wallet`. */
export const Wallet = {
  Accepts: 0,
  Refuses: 1,
  Reverts: 2,
  BurnsGas: 3,
  ReturnsBomb: 4,
  ReturnsShort: 5,
} as const;

/** Numbers of `HookToken.Mood`. */
export const Mood = { Honest: 0, SaysFalse: 1, Paused: 2, SaysNothing: 3 } as const;

/** A market of a token that can turn hostile. */
export async function hostileTokenMarket({ deploy }: Pick<Stage, "deploy">): Promise<{
  readonly market: Market;
  readonly token: HookToken;
}> {
  const token = await ethers.deployContract("HookToken");
  return { market: await deploy({ token: token as unknown as TestToken }), token };
}

/** A job whose client is a contract wallet of some kind. */
export async function walletJob(market: Market, provider: Provider, wallet: number) {
  const client = await ethers.deployContract("HostileClient", [await market.escrow.getAddress()]);
  await market.token.mint(client, PAYMENT);
  await client.deposit(PAYMENT);
  await client.setWallet(wallet);
  const terms = await market.terms();
  await client.postJob(provider.address, terms);
  return { jobId: await market.escrow.jobIdOf(client, terms.nonce), client };
}

/** An account that calls a second time while a token moves for the first call. */
export async function reentrant(market: Market, tokens: bigint) {
  const account = await ethers.deployContract("Reentrant");
  await market.token.mint(account, tokens);
  for (const spender of [market.escrow, market.registry]) await account.approve(market.token, spender);
  return account;
}

/** A call as data. */
export function dataOf(contract: BaseContract, name: string, args: readonly unknown[]): string {
  return contract.interface.encodeFunctionData(name, args);
}

/** A permit of the market's token for the escrow. */
export async function permitFor(market: Market, owner: Account, value: bigint, deadline: number) {
  const { name, version, chainId, verifyingContract } = await market.token.eip712Domain();
  const fields = { owner: "address", spender: "address", value: "uint256", nonce: "uint256", deadline: "uint256" };
  const signed = await owner.signTypedData(
    { name, version, chainId, verifyingContract },
    { Permit: Object.entries(fields).map(([field, type]) => ({ name: field, type })) },
    {
      owner: owner.address,
      spender: await market.escrow.getAddress(),
      value,
      nonce: await market.token.nonces(owner),
      deadline,
    },
  );
  return ethers.Signature.from(signed);
}
