import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import type { InterfaceAbi } from "ethers";
import hre from "hardhat";
import type { JobEscrow, ProviderRegistry } from "../../../types/index.ts";
import { ethers, networkHelpers } from "./chain.ts";
import { deployMarket, type Market, type MarketOptions } from "./market.ts";
import { type Patch, type Weakness, weakenedFiles, weaknesses } from "./weaknesses.ts";

/**
 * One pair of contracts has all weaknesses, each asleep until its bit is set in a slot that nothing else uses: so that one run of the
 * compiler serves every attack, and each meets a contract that lacks what it is about and nothing else.
 */
const SLOT = `0x${Buffer.from("weakness").toString("hex")}`;

/** A market whose contracts have some weaknesses. */
export async function weakenedMarket(names: readonly Weakness[], options: MarketOptions = {}): Promise<Market> {
  const { registry, escrow } = compileWeakened();
  const all = Object.keys(weaknesses);
  const mask = names.reduce((bits, name) => bits | (1n << BigInt(all.indexOf(name))), 0n);
  const deploy = async (name: "ProviderRegistry" | "JobEscrow", bytecode: string, args: readonly unknown[]) => {
    const { abi } = await hre.artifacts.readArtifact(name);
    const factory = await ethers.getContractFactory(abi as unknown as InterfaceAbi[], bytecode);
    const contract = await factory.deploy(...args);
    await networkHelpers.setStorageAt(await contract.getAddress(), SLOT, mask);
    return contract;
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

/** The source of a file with all weaknesses in it. */
function weakenedSource(file: string, source: string): string {
  let content = source;
  for (const [index, patches] of Object.values<readonly Patch[]>(weaknesses).entries()) {
    for (const { text, instead } of patches.filter((patch) => patch.file === file)) {
      if (content.split(text).length !== 2) throw new Error(`${file} does not contain exactly once: ${text}`);
      content = content.replace(text, () => instead.replaceAll("@weak", `isWeak(${index})`));
    }
  }
  const folder = path.posix.dirname(file);
  content = content.replaceAll(/from "(\.[^"]*)"/g, (_, relative: string) => {
    const target = path.posix.join(folder, relative);
    return `from "${target === weakenedFiles.signatures ? `weakened/${target}` : target}"`;
  });
  return `${content}
function isWeak(uint256 weakness) view returns (bool weak) {
    assembly {
        weak := and(1, shr(weakness, sload(${SLOT})))
    }
}
`;
}

/** One run of the compiler, without its optimizer; the result is kept until a source changes. */
function compile(): Bytecodes {
  const { root } = hre.config.paths;
  const read = (file: string): string => readFileSync(path.join(root, file), "utf8");
  const sources = Object.fromEntries(
    Object.values(weakenedFiles).map((file) => [`weakened/${file}`, { content: weakenedSource(file, read(file)) }]),
  );
  const { escrow, registry } = weakenedFiles;
  const input = JSON.stringify({
    language: "Solidity",
    sources,
    settings: {
      evmVersion: "cancun",
      outputSelection: {
        [`weakened/${escrow}`]: { JobEscrow: ["evm.bytecode.object"] },
        [`weakened/${registry}`]: { ProviderRegistry: ["evm.bytecode.object"] },
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
  const result = { registry: bytecodeOf(registry, "ProviderRegistry"), escrow: bytecodeOf(escrow, "JobEscrow") };
  mkdirSync(cache, { recursive: true });
  writeFileSync(kept, JSON.stringify(result));
  return result;
}
