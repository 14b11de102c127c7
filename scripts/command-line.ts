import { parseArgs } from "node:util";

/** What a text says as the value of an option, or what it should have been, such as "a whole number from 1 up". */
export type Reading<Value> = { readonly value: Value } | { readonly expected: string };

/** An option of a command; `Fallback` is the type of what stands for one that is not given. */
export interface Option<Value, Fallback = Value> {
  /** Stands for the value in the help, such as `N`; absent for a switch, which takes none. */
  readonly placeholder?: string;
  /** What it does, with the unit of its value. */
  readonly about: string;
  /** Value of an option that is not given. */
  readonly fallback: Fallback;
  /** The fallback as the help shows it; absent where the text of `about` says it or there is none. */
  readonly shownFallback?: string;
  read(text: string): Reading<Value>;
}

/** A command and all that may be said to it. */
export interface Command<Options> {
  /** As it is typed before its options: `npm run bench --`. */
  readonly name: string;
  /** What it does, with its exit codes where they are not plain. */
  readonly about: string;
  /** What may stand beside the options, such as `provider ADDRESS`; absent where nothing may. */
  readonly operands?: string;
  readonly options: Options;
  /** Shown below the options. */
  readonly notes?: string;
  /** What may follow the name. */
  readonly examples: readonly string[];
}

/** Values by option. */
export type Values<Options> = {
  readonly [Name in keyof Options]: Options[Name] extends Option<infer Value, infer Fallback>
    ? Value | Fallback
    : never;
};

/** A command line that cannot be used; one line a fault, which names the option and what would do. */
export class CommandLineError extends Error {
  override readonly name = "CommandLineError";
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(faults.join("\n"));
    this.faults = faults;
  }
}

/** An option without a value: true when it is given. */
export function toggle(about: string): Option<boolean> {
  return { about, fallback: false, read: () => ({ value: true }) };
}

/** Any text but an empty one. */
export function text<Fallback extends string | undefined>(
  placeholder: string,
  about: string,
  fallback: Fallback,
): Option<string, Fallback> {
  return {
    placeholder,
    about,
    fallback,
    ...(fallback === undefined ? {} : { shownFallback: fallback }),
    read: (given) => (given === "" ? { expected: "a text that is not empty" } : { value: given }),
  };
}

/** A number in decimal digits; bounds are included. */
export interface NumberOption<Fallback> {
  readonly placeholder?: string;
  readonly about: string;
  readonly fallback: Fallback;
  readonly shownFallback?: string;
  readonly least: number;
  readonly most?: number;
}

/** A whole number within bounds, at most 2^53 - 1. */
export function wholeNumber<Fallback extends number | undefined>(
  option: NumberOption<Fallback>,
): Option<number, Fallback> {
  return numberOption(option, /^\d+$/, "a whole number", (value) => Number.isSafeInteger(value));
}

/** A number within bounds, with or without a fraction. */
export function decimal<Fallback extends number | undefined>(option: NumberOption<Fallback>): Option<number, Fallback> {
  return numberOption(option, /^\d+(\.\d+)?$/, "a number", () => true);
}

function numberOption<Fallback extends number | undefined>(
  { placeholder = "N", about, fallback, shownFallback, least, most }: NumberOption<Fallback>,
  form: RegExp,
  kind: string,
  holds: (value: number) => boolean,
): Option<number, Fallback> {
  const shown = shownFallback ?? (fallback === undefined ? undefined : String(fallback));
  return {
    placeholder,
    about,
    fallback,
    ...(shown === undefined ? {} : { shownFallback: shown }),
    read: (given) => {
      const value = form.test(given) ? Number(given) : Number.NaN;
      if (holds(value) && value >= least && value <= (most ?? Number.MAX_VALUE)) return { value };
      return { expected: `${kind} from ${least} ${most === undefined ? "up" : `to ${most}`}` };
    },
  };
}

/** Values that another option would take, separated by commas. */
export function list<Value>(
  item: Option<Value, unknown>,
  placeholder: string,
  fallback: readonly Value[],
): Option<readonly Value[]> {
  return {
    placeholder,
    about: item.about,
    fallback,
    shownFallback: fallback.join(","),
    read: (given) => {
      const value: Value[] = [];
      for (const part of given.split(",")) {
        const reading = item.read(part);
        if ("expected" in reading) return { expected: `${reading.expected}, or several with commas between` };
        value.push(reading.value);
      }
      return { value };
    },
  };
}

/** What a command line says: the values, or that help is wanted. */
export type CommandLine<Options> =
  | { readonly help: true }
  | { readonly help: false; readonly values: Values<Options>; readonly operands: readonly string[] };

type OptionsOf<Options> = { readonly [Name in keyof Options]: Option<unknown> };

/**
 * Reads the arguments of a command; of an option that is given twice the last counts.
 * @throws CommandLineError that lists every fault.
 */
export function readCommandLine<Options extends OptionsOf<Options>>(
  command: Command<Options>,
  args: readonly string[],
): CommandLine<Options> {
  const options = new Map<string, Option<unknown>>(Object.entries(command.options));
  const { tokens } = parseArgs({
    args: [...args],
    strict: false,
    tokens: true,
    allowPositionals: true,
    options: {
      help: { type: "boolean", short: "h" },
      ...Object.fromEntries([...options].map(([name, option]) => [name, { type: typeOf(option) }])),
    },
  });
  if (tokens.some((token) => token.kind === "option" && token.name === "help")) return { help: true };
  const values = new Map([...options].map(([name, { fallback }]) => [name, fallback]));
  const operands: string[] = [];
  const faults: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") operands.push(token.value);
    if (token.kind !== "option") continue;
    const option = options.get(token.name);
    if (option === undefined || !token.rawName.startsWith("--")) {
      faults.push(`there is no option ${token.rawName}; there are ${namesOf(options)}`);
      continue;
    }
    const reading = readOption(token.name, option, token.value);
    if ("fault" in reading) faults.push(reading.fault);
    else values.set(token.name, reading.value);
  }
  // A word behind an option that does not exist may have been meant as its value.
  if (command.operands === undefined && operands.length > 0 && faults.length === 0) {
    faults.push(
      `"${operands.join(" ")}" is no option, and nothing else is taken; options begin with -- and follow ${command.name}`,
    );
  }
  if (faults.length > 0) throw new CommandLineError(faults);
  return { help: false, values: Object.fromEntries(values) as Values<Options>, operands };
}

function readOption(
  name: string,
  option: Option<unknown>,
  given: string | undefined,
): { readonly value: unknown } | { readonly fault: string } {
  if (option.placeholder === undefined) {
    if (given !== undefined) return { fault: `--${name} takes no value, so not "${given}"` };
    return { value: true };
  }
  if (given === undefined || given.startsWith("--")) {
    return { fault: `--${name} needs a value: --${name} ${option.placeholder}` };
  }
  const reading = option.read(given);
  if ("value" in reading) return reading;
  return { fault: `--${name} must be ${reading.expected}, not "${given}"` };
}

function typeOf(option: Option<unknown>): "boolean" | "string" {
  return option.placeholder === undefined ? "boolean" : "string";
}

function namesOf(options: ReadonlyMap<string, Option<unknown>>): string {
  return [...options.keys(), "help"].map((name) => `--${name}`).join(", ");
}

/** The help of a command: what it does, its options with their defaults in brackets, examples. */
export function helpOf<Options extends OptionsOf<Options>>(command: Command<Options>): string {
  const { name, about, operands, notes, examples } = command;
  const rows = Object.entries<Option<unknown>>(command.options).map(
    ([option, { placeholder, about: what, ...rest }]) => {
      const shown = rest.shownFallback === undefined ? "" : ` (${rest.shownFallback})`;
      return [`--${option}${placeholder === undefined ? "" : ` ${placeholder}`}`, `${what}${shown}`] as const;
    },
  );
  rows.push(["--help", "this text"]);
  const width = Math.max(...rows.map(([left]) => left.length));
  const indented = `\n${" ".repeat(width + 4)}`;
  return [
    `${name}${operands === undefined ? "" : ` ${operands}`} [OPTION ...]`,
    about,
    rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right.replaceAll("\n", indented)}`).join("\n"),
    ...(notes === undefined ? [] : [notes]),
    `For example:\n${examples.map((example) => `  ${name} ${example}`).join("\n")}`,
  ].join("\n\n");
}

/**
 * Runs a command of the process: prints its help, or does what `main` says and ends with the code that it resolves with. A command line
 * that cannot be used, also by what `main` finds in it (`CommandLineError`), is told in a line a fault, and the code is 2.
 */
export async function runCommand<Options extends OptionsOf<Options>>(
  command: Command<Options>,
  main: (values: Values<Options>, operands: readonly string[]) => number | Promise<number>,
): Promise<void> {
  try {
    const line = readCommandLine(command, process.argv.slice(2));
    if (line.help) process.stdout.write(`${helpOf(command)}\n`);
    else process.exitCode = await main(line.values, line.operands);
  } catch (error) {
    if (!(error instanceof CommandLineError)) throw error;
    const program = command.name.replace(/ --$/, "");
    process.stderr.write(error.faults.map((fault) => `${program}: ${fault}\n`).join(""));
    process.exitCode = 2;
  }
}
