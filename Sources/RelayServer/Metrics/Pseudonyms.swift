import Crypto
package import Records
package import RelayCore

/// What users and devices are called in logs: ten hexadecimal digits that only this relay's key tells apart.
///
/// One user in one container is always the same, so a log can be read for one of them; whoever has the log alone cannot
/// tell who it is, nor try names.
package struct Pseudonyms: Sendable {
    private let key: SymmetricKey

    /// - Parameter relayKey: The relay's own, from its data folder.
    package init(relayKey: [UInt8]) {
        key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: relayKey),
            info: Array("zonecast log names".utf8),
            outputByteCount: 32
        )
    }

    package func of(_ user: UserID) -> String { name("user", user.recordName) }

    /// A device's identifier is the app's to choose, so it counts together with its user.
    package func ofDevice(_ caller: Caller) -> String? {
        guard let user = caller.user, !caller.deviceID.isEmpty else { return nil }
        return name("device", "\(user.recordName)/\(caller.deviceID)")
    }

    /// Whoever ran into a rate; `nil` where that is nobody in particular.
    package func of(_ subject: RateSubject) -> String? {
        switch subject {
        case .user(let user): of(user)
        case .address(let text): name("address", text)
        case .account(let text): name("account", text)
        case .anyone: nil
        }
    }

    private func name(_ kind: String, _ text: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array("\(kind) \(text)".utf8), using: key)
        return code.prefix(5).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
