// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {IJobEscrow} from "../interfaces/IJobEscrow.sol";

/// @title HostileClient
/// @notice A contract as a client that signs as an ERC-1271 wallet in hostile ways.
contract HostileClient {
    enum Wallet {
        Accepts,
        Refuses,
        Reverts,
        BurnsGas,
        ReturnsBomb,
        ReturnsShort
    }

    IJobEscrow private immutable ESCROW;

    Wallet public wallet;

    constructor(IJobEscrow escrow) {
        ESCROW = escrow;
        IERC20(escrow.token()).approve(address(escrow), type(uint256).max);
    }

    function setWallet(Wallet wallet_) external {
        wallet = wallet_;
    }

    function deposit(uint256 amount) external {
        ESCROW.deposit(amount);
    }

    function postJob(address provider, IJobEscrow.JobTerms calldata terms) external {
        ESCROW.postJob(provider, terms);
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        Wallet kind = wallet;
        if (kind == Wallet.Accepts) return this.isValidSignature.selector;
        if (kind == Wallet.Reverts) revert("no");
        if (kind == Wallet.BurnsGas) {
            uint256 i;
            while (true) ++i;
        }
        if (kind == Wallet.ReturnsBomb) {
            assembly {
                return(0, 1000000)
            }
        }
        if (kind == Wallet.ReturnsShort) {
            assembly {
                mstore(0, shl(224, 0x1626ba7e))
                return(0, 4)
            }
        }
        return 0xffffffff;
    }
}
