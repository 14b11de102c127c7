import { type SettingFault, SettingsError } from "./settings.ts";

/** What a program tried to listen on, and the variables that chose it. */
export interface ListenPlace {
  readonly host: string;
  readonly port: number;
  readonly hostVariable: string;
  readonly portVariable: string;
}

/**
 * A failed attempt to listen, as the fault of the variable that chose host or port: a `SettingsError` that says what to change. Any
 * other error comes back as it is.
 */
export function listenError(error: unknown, place: ListenPlace): unknown {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  const fault = faultOf(code, place);
  return fault === undefined ? error : new SettingsError([fault]);
}

function faultOf(code: unknown, { host, port, hostVariable, portVariable }: ListenPlace): SettingFault | undefined {
  switch (code) {
    case "EADDRINUSE":
      return { variable: portVariable, message: `port ${port} on ${host} is taken by another process; choose another` };
    case "EACCES":
      return { variable: portVariable, message: `port ${port} needs rights that this process has not; choose another` };
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return { variable: hostVariable, message: `${host} is no address of this machine` };
    default:
      return undefined;
  }
}
