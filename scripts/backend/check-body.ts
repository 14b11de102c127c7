import type { z } from "zod";
import { T4tError } from "../../protocol/errors.ts";

type Issue = z.core.$ZodIssue;

/** Checks a parsed JSON body against its schema. Throws a `T4tError` that names the first field at fault as OpenAI does. */
export function checkBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [first] = result.error.issues;
  if (first === undefined) throw new T4tError("invalid_value", "invalid body");
  const { path, message } = mostSpecific(first);
  const param = path.reduce<string>(appendStep, "");
  const options = param === "" ? {} : { param };
  if (valueAt(body, path) === undefined) {
    throw new T4tError("missing_required_parameter", `missing required parameter: '${param}'`, options);
  }
  throw new T4tError("invalid_value", `invalid value for '${param === "" ? "body" : param}': ${message}`, options);
}

interface Fault {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** A union says only "invalid input"; the branch that got furthest into the value says why. */
function mostSpecific(issue: Issue): Fault {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors.flatMap((branch) => branch.slice(0, 1)).map(mostSpecific);
  const furthest = inner.toSorted((a, b) => b.path.length - a.path.length)[0];
  if (furthest === undefined || furthest.path.length === 0) return issue;
  return { path: [...issue.path, ...furthest.path], message: furthest.message };
}

function appendStep(path: string, step: PropertyKey): string {
  if (typeof step === "number") return `${path}[${step}]`;
  return path === "" ? String(step) : `${path}.${String(step)}`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let current = value;
  for (const step of path) {
    if (typeof current !== "object" || current === null) return undefined;
    current = Reflect.get(current, step);
  }
  return current;
}
