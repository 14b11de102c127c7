import { access, constants, readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import {
  type Abi,
  type Address,
  createPublicClient,
  createWalletClient,
  encodeDeployData,
  encodeFunctionData,
  getAddress,
  type Hex,
  http,
  isAddress,
  type PublicClient,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi, jobEscrowBytecode } from "../chain/abi/job-escrow.ts";
import { providerRegistryAbi, providerRegistryBytecode } from "../chain/abi/provider-registry.ts";
import { testTokenAbi, testTokenBytecode } from "../chain/abi/test-token.ts";
import { type Deployment, writeDeployment } from "../chain/deployment.ts";
import { parsePrivateKey } from "../protocol/setting-kinds.ts";

/** As most tokens that people pay with have them; prices of the local network are made for it. */
const testTokenDecimals = 6;

/** What the two contracts fix for ever. Amounts in the token's smallest unit, times in seconds. */
export interface DeploymentParameters {
  readonly minStake: bigint;
  /** Seconds after its last sign of life in which a provider counts as live. */
  readonly timeToLive: bigint;
  readonly unbondingPeriod: bigint;
  /** Stake that a job holds, in basis points of its largest payment. */
  readonly collateralBps: bigint;
  readonly minPayment: bigint;
  readonly minDuration: number;
  readonly maxDuration: number;
  readonly ackWindow: number;
  readonly responseWindow: number;
}

/**
 * For test networks: anybody may register, but a job is still covered by its provider's stake in full, so a provider needs stake of at
 * least the sum of its open jobs' largest payments.
 */
export const defaultParameters: DeploymentParameters = Object.freeze({
  minStake: 0n,
  timeToLive: 600n,
  unbondingPeriod: 604_800n,
  collateralBps: 10_000n,
  minPayment: 1n,
  minDuration: 30,
  maxDuration: 86_400,
  ackWindow: 30,
  responseWindow: 60,
});

/** Options of `deployContracts`. */
export interface DeployOptions {
  readonly rpcUrl: string;
  /** Pays for the deployment and owns the contracts. */
  readonly key: Hex;
  /** Payment token; a test token is deployed when absent. */
  readonly token?: Address;
  readonly parameters?: Partial<DeploymentParameters>;
  /** How often receipts are looked for, ms. */
  readonly pollMs?: number;
}

/** A transaction of the deployment failed on chain. */
export class DeployError extends Error {
  override readonly name = "DeployError";
}

async function hasCode(reader: PublicClient, address: Address): Promise<boolean> {
  return ((await reader.getCode({ address })) ?? "0x") !== "0x";
}

/** Deploys registry and escrow (and a test token where none is given) and lets the escrow take slots of the registry. */
export async function deployContracts(options: DeployOptions): Promise<Deployment> {
  const parameters: DeploymentParameters = { ...defaultParameters, ...options.parameters };
  const account = privateKeyToAccount(options.key);
  const transport = http(options.rpcUrl);
  const reader = createPublicClient({ transport, pollingInterval: options.pollMs ?? 50 });
  const wallet = createWalletClient({ account, transport });
  const chainId = await reader.getChainId();

  const send = async (
    what: string,
    to: Address | null,
    data: Hex,
  ): Promise<{ readonly address: Address; readonly blockNumber: number }> => {
    const hash = await wallet.sendTransaction({ chain: null, to, data });
    const receipt = await reader.waitForTransactionReceipt({ hash });
    if (receipt.status !== "success") throw new DeployError(`${what} was reverted (transaction ${hash})`);
    return {
      address: getAddress(receipt.contractAddress ?? to ?? account.address),
      blockNumber: Number(receipt.blockNumber),
    };
  };
  const deploy = (what: string, abi: Abi, bytecode: Hex, args: readonly unknown[]): ReturnType<typeof send> =>
    send(`the deployment of ${what}`, null, encodeDeployData({ abi, bytecode, args }));

  if (options.token !== undefined && !(await hasCode(reader, options.token)))
    throw new DeployError(
      `there is no contract at ${options.token}, which was named as the token, on chain ${chainId}`,
    );
  if ((await reader.getBalance({ address: account.address })) === 0n)
    throw new DeployError(`${account.address} has no ETH to deploy with on chain ${chainId}; send it some`);
  const token =
    options.token === undefined
      ? (await deploy("TestToken", testTokenAbi, testTokenBytecode, [testTokenDecimals])).address
      : options.token;
  const registry = await deploy("ProviderRegistry", providerRegistryAbi, providerRegistryBytecode, [
    token,
    account.address,
    {
      minStake: parameters.minStake,
      timeToLive: parameters.timeToLive,
      unbondingPeriod: parameters.unbondingPeriod,
      collateralBps: parameters.collateralBps,
    },
  ]);
  const escrow = await deploy("JobEscrow", jobEscrowAbi, jobEscrowBytecode, [
    registry.address,
    account.address,
    {
      minPayment: parameters.minPayment,
      minDuration: parameters.minDuration,
      maxDuration: parameters.maxDuration,
      ackWindow: parameters.ackWindow,
      responseWindow: parameters.responseWindow,
    },
  ]);
  const allow = encodeFunctionData({
    abi: providerRegistryAbi,
    functionName: "setMarket",
    args: [escrow.address, true],
  });
  await send("setMarket", registry.address, allow);
  return Object.freeze({
    chainId,
    registry: registry.address,
    escrow: escrow.address,
    token,
    deployedAtBlock: registry.blockNumber,
  });
}

const usage = `Deploys ProviderRegistry and JobEscrow and writes the deployment file that provider and gateway read.

  node scripts/deploy.ts --rpc URL --key-file FILE [--token ADDRESS] [--out FILE] [--json]

  --rpc URL              the chain's RPC
  --key-file FILE        file of mode 0600 with the private key that pays and owns the contracts
  --token ADDRESS        payment token; a test token is deployed when absent
  --out FILE             deployment file (deployment.json); one that is there already is not overwritten
  --json                 print the deployment as one JSON line
  --min-stake N          (${defaultParameters.minStake}) smallest stake of an active provider
  --time-to-live S       (${defaultParameters.timeToLive}) seconds without a sign of life after which a provider is stale
  --unbonding-period S   (${defaultParameters.unbondingPeriod})
  --collateral-bps N     (${defaultParameters.collateralBps}) stake held per job, in basis points of its largest payment
  --min-payment N        (${defaultParameters.minPayment})
  --min-duration S       (${defaultParameters.minDuration})
  --max-duration S       (${defaultParameters.maxDuration})
  --ack-window S         (${defaultParameters.ackWindow})
  --response-window S    (${defaultParameters.responseWindow})
`;

class UsageError extends Error {
  override readonly name = "UsageError";
}

async function readKeyFile(path: string): Promise<Hex> {
  const { mode } = await stat(path).catch(() => {
    throw new UsageError(`--key-file: cannot read ${path}`);
  });
  if (process.platform !== "win32" && (mode & 0o077) !== 0)
    throw new UsageError(`--key-file: others can read it; run: chmod 600 ${path}`);
  const key = parsePrivateKey(await readFile(path, "utf8"));
  if (key === undefined)
    throw new UsageError(`--key-file: ${path} does not hold 64 hexadecimal digits and nothing else`);
  return key;
}

/** Contracts whose file cannot be written would be paid for and lost; a file of other contracts would be lost by ours. */
async function requireWritable(out: string): Promise<void> {
  const exists = await access(out).then(
    () => true,
    () => false,
  );
  if (exists) throw new UsageError(`--out: ${out} is there already; name another file, or move it away`);
  await access(dirname(out), constants.W_OK).catch(() => {
    throw new UsageError(`--out: ${dirname(out)} is not a folder that can be written to`);
  });
}

function wholeNumber(flag: string, text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,29}$/.test(text)) throw new UsageError(`--${flag} must be a whole number`);
  return BigInt(text);
}

async function main(args: readonly string[]): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      rpc: text,
      "key-file": text,
      token: text,
      out: text,
      json: { type: "boolean" },
      help: { type: "boolean" },
      "min-stake": text,
      "time-to-live": text,
      "unbonding-period": text,
      "collateral-bps": text,
      "min-payment": text,
      "min-duration": text,
      "max-duration": text,
      "ack-window": text,
      "response-window": text,
    },
  });
  if (values.help === true) {
    process.stdout.write(usage);
    return;
  }
  const { rpc, token } = values;
  if (rpc === undefined) throw new UsageError("--rpc is missing");
  if (values["key-file"] === undefined) throw new UsageError("--key-file is missing");
  if (token !== undefined && !isAddress(token)) throw new UsageError("--token must be an address with its checksum");
  const number = (flag: keyof typeof values): bigint | undefined => {
    const value = values[flag];
    return wholeNumber(flag, typeof value === "string" ? value : undefined);
  };
  const out = values.out ?? "deployment.json";
  await requireWritable(out);
  const deployment = await deployContracts({
    rpcUrl: rpc,
    key: await readKeyFile(values["key-file"]),
    ...(token === undefined ? {} : { token }),
    parameters: {
      minStake: number("min-stake") ?? defaultParameters.minStake,
      timeToLive: number("time-to-live") ?? defaultParameters.timeToLive,
      unbondingPeriod: number("unbonding-period") ?? defaultParameters.unbondingPeriod,
      collateralBps: number("collateral-bps") ?? defaultParameters.collateralBps,
      minPayment: number("min-payment") ?? defaultParameters.minPayment,
      minDuration: Number(number("min-duration") ?? defaultParameters.minDuration),
      maxDuration: Number(number("max-duration") ?? defaultParameters.maxDuration),
      ackWindow: Number(number("ack-window") ?? defaultParameters.ackWindow),
      responseWindow: Number(number("response-window") ?? defaultParameters.responseWindow),
    },
    pollMs: 500,
  });
  try {
    await writeDeployment(out, deployment);
  } catch (error) {
    // The contracts are there and paid for: their addresses must not be lost with the file.
    process.stdout.write(`${JSON.stringify(deployment)}\n`);
    throw new DeployError(
      `the contracts are deployed, but ${out} could not be written (${error instanceof Error ? error.message : String(error)}); the line above is its content`,
    );
  }
  process.stdout.write(
    values.json === true
      ? `${JSON.stringify(deployment)}\n`
      : `deployed; wrote ${out}:\n${JSON.stringify(deployment, null, 2)}\n`,
  );
}

/** viem's whole message holds the bytecode; its short one says what was wrong. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "shortMessage" in error && typeof error.shortMessage === "string" ? error.shortMessage : error.message;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    const misused =
      error instanceof UsageError ||
      (error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS"));
    process.stderr.write(
      misused && error instanceof Error
        ? `${error.message}\n\n${usage}`
        : `the deployment failed: ${describe(error)}\n`,
    );
    process.exitCode = misused ? 2 : 1;
  }
}
