import {
  type Address,
  createPublicClient,
  createWalletClient,
  type Hex,
  http,
  parseEther,
  type PublicClient,
  type WalletClient,
  zeroAddress,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { testTokenAbi } from "../../chain/abi/test-token.ts";
import type { Deployment } from "../../chain/deployment.ts";

/** A wallet of the local network could not be given what it needs. */
export class FundingError extends Error {
  override readonly name = "FundingError";
}

/** Who gets what. */
export interface FundingOptions {
  readonly rpcUrl: string;
  readonly deployment: Deployment;
  readonly funderKey: Hex;
  readonly gateways: readonly Address[];
  readonly providers: readonly Address[];
  /** Wei of the token that each gateway's escrow account is filled up to. */
  readonly gatewayDeposit: bigint;
  /** Wei of the token that each provider's wallet and stake together are filled up to. */
  readonly providerTokens: bigint;
  /** The token is the test token and prints money. */
  readonly mayMint: boolean;
}

const gasMoney = parseEther("1");

/** Fills every wallet up to what it needs and no further, so that a second start on the same chain costs nothing. */
export async function fundNetwork(options: FundingOptions): Promise<void> {
  const account = privateKeyToAccount(options.funderKey);
  const transport = http(options.rpcUrl);
  const reader = createPublicClient({ transport, pollingInterval: 50 });
  const chainId = await reader.getChainId();
  const chain = {
    id: chainId,
    name: `chain ${chainId}`,
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [options.rpcUrl] } },
  };
  const wallet = createWalletClient({ account, chain, transport });
  const send = { reader, wallet, account: account.address };

  for (const address of [...options.gateways, ...options.providers]) {
    const balance = await reader.getBalance({ address });
    if (balance >= gasMoney / 2n) continue;
    await mined(reader, await wallet.sendTransaction({ account, chain, to: address, value: gasMoney - balance }));
  }
  const deposits: { readonly address: Address; readonly missing: bigint }[] = [];
  for (const address of options.gateways) {
    const { free } = await reader.readContract({
      address: options.deployment.escrow,
      abi: jobEscrowAbi,
      functionName: "accountOf",
      args: [address],
    });
    if (free < options.gatewayDeposit) deposits.push({ address, missing: options.gatewayDeposit - free });
  }
  const grants: { readonly address: Address; readonly missing: bigint }[] = [];
  for (const address of options.providers) {
    const held = await reader.readContract({
      address: options.deployment.token,
      abi: testTokenAbi,
      functionName: "balanceOf",
      args: [address],
    });
    const stake = await stakeOf(reader, options.deployment.registry, address);
    const has = held + stake;
    if (has < options.providerTokens) grants.push({ address, missing: options.providerTokens - has });
  }
  const needed = [...deposits, ...grants].reduce((sum, { missing }) => sum + missing, 0n);
  if (needed === 0n) return;
  await haveTokens(options, send, needed);
  const depositSum = deposits.reduce((sum, { missing }) => sum + missing, 0n);
  if (depositSum > 0n) {
    await mined(
      reader,
      await wallet.writeContract({
        account,
        chain,
        address: options.deployment.token,
        abi: testTokenAbi,
        functionName: "approve",
        args: [options.deployment.escrow, depositSum],
      }),
    );
  }
  for (const { address, missing } of deposits) {
    await mined(
      reader,
      await wallet.writeContract({
        account,
        chain,
        address: options.deployment.escrow,
        abi: jobEscrowAbi,
        functionName: "depositFor",
        args: [address, missing],
      }),
    );
  }
  for (const { address, missing } of grants) {
    await mined(
      reader,
      await wallet.writeContract({
        account,
        chain,
        address: options.deployment.token,
        abi: testTokenAbi,
        functionName: "transfer",
        args: [address, missing],
      }),
    );
  }
}

/** Stake of a provider; 0 before it has registered. The node's key is owner and operator in one. */
async function stakeOf(reader: PublicClient, registry: Address, provider: Address): Promise<bigint> {
  const contract = { address: registry, abi: providerRegistryAbi } as const;
  const owner = await reader.readContract({ ...contract, functionName: "providerOfOperator", args: [provider] });
  if (owner === zeroAddress) return 0n;
  return (await reader.readContract({ ...contract, functionName: "providerOf", args: [owner] })).stake;
}

async function haveTokens(
  options: FundingOptions,
  send: { readonly reader: PublicClient; readonly wallet: WalletClient; readonly account: Address },
  needed: bigint,
): Promise<void> {
  const { reader, wallet, account } = send;
  const token = { address: options.deployment.token, abi: testTokenAbi } as const;
  const held = await reader.readContract({ ...token, functionName: "balanceOf", args: [account] });
  if (held >= needed) return;
  if (!options.mayMint) {
    throw new FundingError(
      `the funding wallet ${account} holds ${held} of the token ${options.deployment.token} but ${needed} are needed: send it ${needed - held} more`,
    );
  }
  const signer = wallet.account;
  if (signer === undefined) throw new FundingError("the funding wallet has no key");
  await mined(
    reader,
    await wallet.writeContract({
      account: signer,
      chain: wallet.chain,
      ...token,
      functionName: "mint",
      args: [account, needed - held],
    }),
  );
}

async function mined(reader: PublicClient, hash: Hex): Promise<void> {
  const receipt = await reader.waitForTransactionReceipt({ hash });
  if (receipt.status !== "success") throw new FundingError(`the funding transaction ${hash} was reverted`);
}
