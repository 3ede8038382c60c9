import Records
import RelayCore

/// The profiles that users can see of each other.
///
/// See Wire.md, "User operations".
extension Authenticator {
    func profile(of user: UserID, in home: ContainerEnvironment) throws(RelayError) -> UserProfile? {
        try asking { () throws(DirectoryError) in try directory.profile(of: user, in: home) }
    }

    /// Includes users who are not discoverable; the caller must not reveal these to clients.
    func profiles(
        matching lookups: [UserLookup],
        in home: ContainerEnvironment
    ) throws(RelayError) -> [UserLookup: UserProfile] {
        try asking { () throws(DirectoryError) in
            try directory.profiles(matching: lookups, in: home, includesDev: settings.acceptsDevTokens)
        }
    }

    /// Returns the user's verified addresses.
    func contacts(of user: UserID, in home: ContainerEnvironment) throws(RelayError) -> [Share.Contact] {
        guard let account = try profile(of: user, in: home)?.account, !account.isDisabled else { return [] }
        return [account.email.map { .email($0) }, account.phone.map { .phone($0) }].compactMap { $0 }
    }

    func setDiscoverable(
        _ isDiscoverable: Bool,
        user: UserID,
        in home: ContainerEnvironment
    ) async throws(CredentialRefusal) {
        try await writingDesk.inTurn { [self] () throws(CredentialRefusal) in
            try wrapping { () throws(DirectoryError) in
                try directory.setDiscoverable(isDiscoverable, user: user, in: home)
            }
        }
    }

    private func asking<Value>(_ body: () throws(DirectoryError) -> Value) throws(RelayError) -> Value {
        do throws(CredentialRefusal) { return try wrapping(body) } catch { throw error.relayError(redirectURL: nil) }
    }
}
