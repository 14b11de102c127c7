import { readFile, writeFile } from "node:fs/promises";
import { type Address, getAddress, isAddress } from "viem";
import { z } from "zod";

/** Addresses of one deployment, as written by the deploy script and read by every node (`T4T_DEPLOYMENT_FILE`). */
export interface Deployment {
  readonly chainId: number;
  readonly registry: Address;
  readonly escrow: Address;
  readonly token: Address;
  /** Block of the first contract: where indexes start. */
  readonly deployedAtBlock: number;
}

const address = z
  .custom<Address>(
    (value) => typeof value === "string" && isAddress(value),
    "must be an address, in lower case or with a valid checksum",
  )
  .transform((value) => getAddress(value));

const schema = z.strictObject({
  chainId: z.int().positive(),
  registry: address,
  escrow: address,
  token: address,
  deployedAtBlock: z.int().nonnegative(),
});

/** A deployment file that cannot be used, with the field at fault. */
export class DeploymentFileError extends Error {
  override readonly name = "DeploymentFileError";
}

/** Reads and checks a deployment file. Throws `DeploymentFileError` naming file and field. */
export async function readDeployment(path: string): Promise<Deployment> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new DeploymentFileError(
      `cannot read the deployment file ${path}: run the deploy script or set T4T_DEPLOYMENT_FILE`,
      { cause },
    );
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new DeploymentFileError(`the deployment file ${path} is not JSON`, { cause });
  }
  const parsed = schema.safeParse(json);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join(".") || "file"}: ${issue.message}`).join("; ");
    throw new DeploymentFileError(`the deployment file ${path} is invalid: ${faults}`);
  }
  return parsed.data;
}

/** Writes a deployment file. */
export async function writeDeployment(path: string, deployment: Deployment): Promise<void> {
  await writeFile(path, `${JSON.stringify(deployment, null, 2)}\n`);
}
