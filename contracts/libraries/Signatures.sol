// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @dev Signatures of key holders and of contract wallets, where a wallet can do no harm to its neighbours in a batch: it gets
/// a bounded amount of gas, and none of what it returns beyond one word is copied.
library Signatures {
    /// @dev Enough for a wallet with several owners; 50 wallets that burn it all fit one transaction of 2^24 gas.
    uint256 internal constant WALLET_GAS = 200_000;

    /// @dev Signer by ECDSA; zero when the signature is none (malleable and short ones included).
    function recover(bytes32 digest, bytes calldata signature) internal pure returns (address signer) {
        (signer,,) = ECDSA.tryRecoverCalldata(digest, signature);
    }

    /// @dev ERC-1271 with bounded gas.
    function isValidForWallet(address wallet, bytes32 digest, bytes calldata signature)
        internal
        view
        returns (bool valid)
    {
        bytes memory data = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        bytes32 magic = IERC1271.isValidSignature.selector;
        uint256 walletGas = WALLET_GAS;
        assembly ("memory-safe") {
            // Only the first word comes back, into scratch space. An account without code returns nothing.
            let success := staticcall(walletGas, wallet, add(data, 0x20), mload(data), 0x00, 0x20)
            valid := and(success, and(gt(returndatasize(), 0x1f), eq(mload(0x00), magic)))
        }
    }
}
