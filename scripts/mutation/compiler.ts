import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { z } from "zod";
import type { Node } from "./operators.ts";

/** The contracts whose bytecode is tested, and the files of which they are made. */
export const targets = {
  ProviderRegistry: "contracts/ProviderRegistry.sol",
  JobEscrow: "contracts/JobEscrow.sol",
} as const;

export type Target = keyof typeof targets;

export interface Code {
  readonly bytecode: string;
  readonly deployedBytecode: string;
}

const hex = z.object({ object: z.string() });
const outputSchema = z.object({
  errors: z.array(z.object({ severity: z.string() })).default([]),
  contracts: z
    .record(z.string(), z.record(z.string(), z.object({ evm: z.object({ bytecode: hex, deployedBytecode: hex }) })))
    .default({}),
  sources: z.record(z.string(), z.object({ ast: z.custom<Node>().optional() })).default({}),
});

export interface Place {
  readonly where: string;
  readonly slot: number;
  /** In bytes, from the low end. */
  readonly offset: number;
  readonly variable: string;
}

const rowSchema = z.object({ label: z.string(), slot: z.coerce.number(), offset: z.number() });
const layoutSchema = z.object({
  contracts: z.record(
    z.string(),
    z.record(
      z.string(),
      z.object({
        storageLayout: z.object({
          storage: z.array(rowSchema),
          types: z
            .record(z.string(), z.object({ label: z.string(), members: z.array(rowSchema).optional() }))
            .nullable(),
        }),
      }),
    ),
  ),
});

/** Solidity's compiler in this process: loaded once, it has no start to pay for with each mutant. */
export class Compiler {
  readonly #solc: { compile(input: string): string };
  readonly sources: ReadonlyMap<string, string>;

  constructor(root: string) {
    this.#solc = createRequire(import.meta.url)("solc") as { compile(input: string): string };
    const sources = new Map<string, string>();
    for (const file of Object.values(targets)) collect(root, file, sources);
    this.sources = sources;
  }

  /** Where each variable of the contracts lies, and each field of the structs that they declare. */
  storageLayout(): readonly Place[] {
    const selection = Object.fromEntries(
      Object.entries(targets).map(([name, file]) => [file, { [name]: ["storageLayout"] }]),
    );
    const { contracts } = layoutSchema.parse(this.#compile(this.sources, selection));
    return Object.entries(targets).flatMap(([name, file]) => {
      const layout = contracts[file]?.[name]?.storageLayout;
      if (layout === undefined) throw new Error(`no layout of ${name}`);
      const place = (where: string) => (row: z.infer<typeof rowSchema>) => ({ where, ...row, variable: row.label });
      const structs = Object.values(layout.types ?? {}).flatMap(({ label, members = [] }) => {
        const own = label.startsWith(`struct ${name}.`);
        return own ? members.map(place(label.replace("struct ", ""))) : [];
      });
      return [...layout.storage.map(place(name)), ...structs];
    });
  }

  /** Syntax trees of our own files. */
  trees(): ReadonlyMap<string, Node> {
    const { sources } = this.#run(this.sources, { "*": { "": ["ast"] } });
    return new Map(
      Object.entries(sources).flatMap(([file, { ast }]) => (ast === undefined ? [] : [[file, ast] as const])),
    );
  }

  /**
   * Code of the contracts that a file is part of, with that file replaced; `undefined` when it does not compile. Without the
   * optimizer, which takes most of the time; without metadata, so that equal code is equal.
   */
  compile(file: string, text: string): ReadonlyMap<Target, Code> | undefined {
    const wanted = (Object.keys(targets) as Target[]).filter((name) => this.#uses(targets[name], file));
    const selection = Object.fromEntries(
      wanted.map((name) => [targets[name], { [name]: ["evm.bytecode.object", "evm.deployedBytecode.object"] }]),
    );
    const { errors, contracts } = this.#run(new Map([...this.sources, [file, text]]), selection);
    if (errors.some(({ severity }) => severity === "error")) return undefined;
    return new Map(
      wanted.flatMap((name) => {
        const evm = contracts[targets[name]]?.[name]?.evm;
        if (evm === undefined) return [];
        return [[name, { bytecode: `0x${evm.bytecode.object}`, deployedBytecode: `0x${evm.deployedBytecode.object}` }]];
      }),
    );
  }

  #uses(from: string, file: string, seen = new Set<string>()): boolean {
    if (from === file) return true;
    if (seen.has(from)) return false;
    seen.add(from);
    return importsOf(from, this.sources.get(from) ?? "").some((next) => this.#uses(next, file, seen));
  }

  #run(sources: ReadonlyMap<string, string>, outputSelection: object) {
    return outputSchema.parse(this.#compile(sources, outputSelection));
  }

  #compile(sources: ReadonlyMap<string, string>, outputSelection: object): unknown {
    const input = {
      language: "Solidity",
      sources: Object.fromEntries([...sources].map(([file, content]) => [file, { content }])),
      settings: {
        evmVersion: "cancun",
        optimizer: { enabled: false },
        metadata: { appendCBOR: false, bytecodeHash: "none" },
        outputSelection,
      },
    };
    return JSON.parse(this.#solc.compile(JSON.stringify(input)));
  }
}

function collect(root: string, file: string, into: Map<string, string>): void {
  if (into.has(file)) return;
  const text = readFileSync(path.join(root, file.startsWith("@") ? `node_modules/${file}` : file), "utf8");
  into.set(file, text);
  for (const next of importsOf(file, text)) collect(root, next, into);
}

function importsOf(file: string, text: string): readonly string[] {
  return [...text.matchAll(/^import\s[^;]*?["']([^"']+)["'];/gm)].map(([, name = ""]) =>
    name.startsWith(".") ? path.posix.join(path.posix.dirname(file), name) : name,
  );
}
