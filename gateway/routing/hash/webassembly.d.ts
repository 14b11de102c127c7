/** The part of the WebAssembly API that the hash uses: Node has it, its type declarations have not. */
declare namespace WebAssembly {
  interface Memory {
    /** Another one after `grow`, which leaves the one before without its bytes. */
    readonly buffer: ArrayBuffer;
    /** @param pages Of 64 KiB. Throws RangeError when there is no room for them. */
    grow(pages: number): number;
  }
}

declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};
