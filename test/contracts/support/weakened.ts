import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import type { InterfaceAbi } from "ethers";
import hre from "hardhat";
import type { JobEscrow, ProviderRegistry } from "../../../types/index.ts";
import { ethers } from "./chain.ts";
import { deployMarket, type Market, type MarketOptions } from "./market.ts";

/** A protection taken out of the source: where, what, and what stands there instead. */
interface Weakness {
  readonly file: string;
  readonly text: string;
  readonly instead: string;
}

const ESCROW = "contracts/JobEscrow.sol";
const REGISTRY = "contracts/ProviderRegistry.sol";
const SIGNATURES = "contracts/libraries/Signatures.sol";

/**
 * Each takes one protection away. They touch different functions, so that those of one contract can be compiled together in one
 * weakened contract: an attack on one of them says nothing of the others.
 */
const weaknesses: readonly Weakness[] = [
  // Reentrancy: pays first, without a guard.
  {
    file: ESCROW,
    text: "function withdraw(uint256 amount, address to) external nonReentrant {",
    instead: "function withdraw(uint256 amount, address to) external {",
  },
  {
    file: ESCROW,
    text: "        row.account = row.account.debit(amount);\n        emit Withdrawn(account, to, amount);\n        TOKEN.safeTransfer(to, amount);",
    instead:
      "        TOKEN.transfer(to, amount);\n        unchecked { row.account = Account.wrap(Account.unwrap(row.account) - (amount > row.account.free() ? row.account.free() : amount)); }\n        emit Withdrawn(account, to, amount);",
  },
  // Credits what was sent, not what arrived, and does not look at what the token says.
  {
    file: ESCROW,
    text: "TOKEN.safeTransferFrom(msg.sender, address(this), amount);",
    instead: "TOKEN.transferFrom(msg.sender, address(this), amount);",
  },
  {
    file: ESCROW,
    text: "uint256 received = TOKEN.balanceOf(address(this)) - before;",
    instead: "uint256 received = amount; before;",
  },
  // A permit that somebody else used is an error.
  {
    file: ESCROW,
    text: "try IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s) {} catch {}",
    instead: "IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s);",
  },
  // A slot for nothing.
  {
    file: ESCROW,
    text: "if (maxPayment < MIN_PAYMENT) revert PaymentBelowMinimum(maxPayment, MIN_PAYMENT);",
    instead: "",
  },
  // A cancellation without waiting for an answer.
  { file: ESCROW, text: "if (block.timestamp < until) revert ResponseWindowOpen(jobId, until);", instead: "" },
  // One bad item stops a batch.
  {
    file: ESCROW,
    text: "emit ExpirySkipped(jobId, _statusOf(job), state.deadline());\n                continue;",
    instead: "revert JobNotFound(jobId);",
  },
  // A slash without consent.
  { file: ESCROW, text: "            revert InvalidAcknowledgement(jobId);\n", instead: "" },
  // Any s, and a wallet with all the gas.
  {
    file: SIGNATURES,
    text: "(signer,,) = ECDSA.tryRecoverCalldata(digest, signature);",
    instead:
      "signer = signature.length < 65 ? address(0) : ecrecover(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));",
  },
  { file: SIGNATURES, text: "uint256 walletGas = WALLET_GAS;", instead: "uint256 walletGas = gasleft();" },
  // No cap, any price, and stake that leaves is safe.
  { file: REGISTRY, text: "if (uint256(state.openJobs()) + count > cap) return (Refusal.AtCapacity, 0);", instead: "" },
  {
    file: REGISTRY,
    text: "if (offering.inputPrice() > maxInputPrice || offering.outputPrice() > maxOutputPrice) {",
    instead: "if (false) {",
  },
  {
    file: REGISTRY,
    text: "uint128 fromUnbonding = collateral - fromStake < unbonding ? collateral - fromStake : unbonding;",
    instead: "uint128 fromUnbonding = 0;",
  },
];

/** A market whose contracts lack the protections above. */
export async function weakenedMarket(options: MarketOptions = {}): Promise<Market> {
  const { registry, escrow } = compileWeakened();
  const deploy = async (name: "ProviderRegistry" | "JobEscrow", bytecode: string, args: readonly unknown[]) => {
    const { abi } = await hre.artifacts.readArtifact(name);
    const factory = await ethers.getContractFactory(abi as unknown as InterfaceAbi[], bytecode);
    return await factory.deploy(...args);
  };
  return await deployMarket({
    ...options,
    deployRegistry: async (args) => (await deploy("ProviderRegistry", registry, args)) as unknown as ProviderRegistry,
    deployEscrow: async (args) => (await deploy("JobEscrow", escrow, args)) as unknown as JobEscrow,
  });
}

interface Bytecodes {
  readonly registry: string;
  readonly escrow: string;
}

let compiled: Bytecodes | undefined;

function compileWeakened(): Bytecodes {
  compiled ??= compile();
  return compiled;
}

/** One run of the compiler, without its optimizer; the result is kept until a source changes. */
function compile(): Bytecodes {
  const { root } = hre.config.paths;
  const read = (file: string): string => readFileSync(path.join(root, file), "utf8");
  const sources: Record<string, { content: string }> = {};
  for (const file of [ESCROW, REGISTRY, SIGNATURES]) {
    let content = read(file);
    for (const { text, instead } of weaknesses.filter((weakness) => weakness.file === file)) {
      if (content.split(text).length !== 2) throw new Error(`${file} does not contain exactly once: ${text}`);
      content = content.replace(text, () => instead);
    }
    const folder = path.posix.dirname(file);
    content = content.replaceAll(/from "(\.[^"]*)"/g, (_, relative: string) => {
      const target = path.posix.join(folder, relative);
      return `from "${target === SIGNATURES ? `weakened/${SIGNATURES}` : target}"`;
    });
    sources[`weakened/${file}`] = { content };
  }
  const input = JSON.stringify({
    language: "Solidity",
    sources,
    settings: {
      evmVersion: "cancun",
      outputSelection: {
        [`weakened/${ESCROW}`]: { JobEscrow: ["evm.bytecode.object"] },
        [`weakened/${REGISTRY}`]: { ProviderRegistry: ["evm.bytecode.object"] },
      },
    },
  });
  const cache = path.join(root, "cache/weakened");
  const kept = path.join(cache, `${createHash("sha256").update(input).digest("hex")}.json`);
  if (existsSync(kept)) return JSON.parse(readFileSync(kept, "utf8")) as Bytecodes;
  const solc = createRequire(import.meta.url)("solc") as {
    compile: (input: string, callbacks: { import: (file: string) => { contents: string } }) => string;
  };
  const imported = (file: string) => ({ contents: read(file.startsWith("@") ? `node_modules/${file}` : file) });
  const output = JSON.parse(solc.compile(input, { import: imported })) as {
    readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[];
    readonly contracts: Record<
      string,
      Record<string, { readonly evm: { readonly bytecode: { readonly object: string } } }>
    >;
  };
  const errors = (output.errors ?? []).filter(({ severity }) => severity === "error");
  if (errors.length > 0) throw new Error(errors.map(({ formattedMessage }) => formattedMessage).join("\n"));
  const bytecodeOf = (file: string, name: string): string =>
    `0x${output.contracts[`weakened/${file}`]?.[name]?.evm.bytecode.object ?? ""}`;
  const result = { registry: bytecodeOf(REGISTRY, "ProviderRegistry"), escrow: bytecodeOf(ESCROW, "JobEscrow") };
  mkdirSync(cache, { recursive: true });
  writeFileSync(kept, JSON.stringify(result));
  return result;
}
