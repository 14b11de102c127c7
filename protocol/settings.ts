import type { z } from "zod";

/** Every variable of ours starts with it; one that does not is none of our business. */
const variablePrefix = "T4T_";

/** Variables by name, each with the schema that turns its text into a value. `undefined` (unset or blank) reaches the schema too. */
export type SettingsShape = Readonly<Record<`T4T_${string}`, z.ZodType>>;

/** What a shape parses to: one frozen object, keyed by variable name. */
export type Settings<S extends SettingsShape> = { readonly [K in keyof S]: z.output<S[K]> };

/** Environment variables as the process has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One thing wrong with the settings. `message` holds the cure and never the value that was found. */
export interface SettingFault {
  readonly variable: string;
  readonly message: string;
}

/** Options of `readSettings`. */
export interface ReadSettingsOptions<S extends SettingsShape> {
  /** Variables of sibling programs, which may share an environment file with this one: neither read nor refused. */
  readonly alsoKnown?: Iterable<string>;
  /** Rules over several variables; one that is wrong by itself is passed as if unset, which for a required one is undefined. */
  readonly check?: (settings: Settings<S>) => Iterable<SettingFault>;
}

/** The settings cannot be used. The message lists every fault, one a line. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
  readonly faults: readonly SettingFault[];

  constructor(faults: readonly SettingFault[]) {
    const lines = faults.map((fault) => `  ${fault.variable}: ${fault.message}`);
    super(`${faults.length === 1 ? "a setting is" : `${faults.length} settings are`} wrong:\n${lines.join("\n")}`);
    this.faults = faults;
  }
}

/**
 * Reads settings from environment variables. A blank variable counts as unset, so that a line `NAME=` in an environment file does no
 * harm. Values are never repeated in a message: a key that was pasted into the wrong variable stays secret.
 *
 * @throws SettingsError naming every fault at once: bad values, missing ones, and `T4T_` variables that nobody reads.
 */
export function readSettings<const S extends SettingsShape>(
  shape: S,
  environment: Environment,
  options: ReadSettingsOptions<S> = {},
): Settings<S> {
  const faults: SettingFault[] = [];
  const values: Record<string, unknown> = {};
  for (const [variable, schema] of Object.entries<z.ZodType>(shape)) {
    const text = environment[variable]?.trim();
    const given = text === undefined || text === "" ? undefined : text;
    const parsed = schema.safeParse(given);
    if (parsed.success) values[variable] = parsed.data;
    else {
      faults.push({ variable, message: faultMessage(given, parsed.error) });
      // The rules below read it as one that is not set.
      values[variable] = schema.safeParse(undefined).data;
    }
  }
  const known = new Set([...Object.keys(shape), ...(options.alsoKnown ?? [])]);
  for (const variable of Object.keys(environment).toSorted()) {
    if (!variable.startsWith(variablePrefix) || known.has(variable)) continue;
    faults.push({ variable, message: unknownMessage(variable, known) });
  }
  const settings = Object.freeze(values) as Settings<S>;
  if (options.check !== undefined) faults.push(...unexplained([...options.check(settings)], faults));
  if (faults.length > 0) throw new SettingsError(faults);
  return settings;
}

/** The variables of a shape for `--help`, one a line: name, default or `required`, and what a value must be. */
export function settingsHelp(shape: SettingsShape): string {
  const rows = Object.entries<z.ZodType>(shape).map(([variable, schema]) => {
    const unset = schema.safeParse(undefined);
    const fallback = unset.success ? shown(unset.data) : "required";
    // No kind takes an empty text, and each says then what it takes.
    const rule = schema.safeParse("").error?.issues[0]?.message ?? "";
    return [variable, fallback, rule.replace(/^must be /, "")] as const;
  });
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      ([variable, fallback, rule]) =>
        `  ${variable.padEnd(widths[0] ?? 0)}  ${fallback.padEnd(widths[1] ?? 0)}  ${rule}`,
    )
    .join("\n");
}

function shown(value: unknown): string {
  return typeof value === "string" ||
    typeof value === "number" ||
    typeof value === "boolean" ||
    typeof value === "bigint"
    ? String(value)
    : "";
}

/** What rules found, without what only follows from a variable that is wrong by itself: such a fault is about it or names it. */
function unexplained(found: readonly SettingFault[], alone: readonly SettingFault[]): readonly SettingFault[] {
  const wrong = alone.map(({ variable }) => new RegExp(`\\b${variable}\\b`));
  return found.filter(({ variable, message }) => !wrong.some((name) => name.test(`${variable} ${message}`)));
}

function faultMessage(given: string | undefined, error: z.ZodError): string {
  const reasons = [...new Set(error.issues.map((issue) => issue.message))].join("; ");
  return given === undefined ? `is not set; it ${reasons}` : reasons;
}

function unknownMessage(variable: string, known: ReadonlySet<string>): string {
  let nearest: string | undefined;
  let distance = 4;
  for (const candidate of known) {
    const candidateDistance = editDistance(variable, candidate);
    if (candidateDistance < distance) {
      nearest = candidate;
      distance = candidateDistance;
    }
  }
  return nearest === undefined
    ? "is not a setting of this program; remove it"
    : `is not a setting; did you mean ${nearest}?`;
}

/** Levenshtein distance: insertions, deletions and replacements that turn one word into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let line = 1; line <= from.length; line += 1) {
    const next = [line];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (row[column - 1] ?? 0) + (from[line - 1] === to[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
