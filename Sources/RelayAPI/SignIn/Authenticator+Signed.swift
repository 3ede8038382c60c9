import Crypto
import Records
import RelayCore
import Synchronization

extension Authenticator {
    /// Authenticates a request that is signed with a server-to-server key.
    ///
    /// All failures have the same error. See Wire.md, "Server-to-server keys".
    func authenticateSigned(
        _ request: APIRequest,
        _ shown: PresentedCredentials,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> Authentication {
        guard !shown.isAmbiguous, shown.apiToken == nil, shown.webToken == nil, let keyID = shown.signature.keyID,
            let signed = SignedRequest(shown.signature, of: request, publicURL: settings.publicURL)
        else { throw .failed }
        let now = time.now()
        let uptime = time.uptime()
        let age = now - signed.date
        guard age <= settings.signatureWindow, .zero - age <= settings.signatureWindow else { throw .failed }
        let key = try serverKey(keyID, in: home, at: uptime)
        guard signed.isMade(with: key.publicKey) else { throw .failed }
        let window = settings.signatureWindow
        try remember(at: uptime) { (memory) throws(CredentialRefusal) in
            try memory.charge(.serverKey(key.user), from: request.remoteAddress, at: uptime)
            guard signed.isWrite else { return }
            guard memory.signatures.isNew(signed.fingerprint, signed: signed.date, by: keyID, at: now, window: window)
            else { throw .failed }
        }
        let grant = Grant(
            identity: .serverKey(key.user),
            deviceID: "key-\(keyID.prefix(16))",
            credential: .serverKey(keyID)
        )
        let mark = SignatureMark(fingerprint: signed.fingerprint, signed: signed.date, oldest: now + (.zero - window))
        return try authentication(Granted(grant: grant), shown, in: home, signature: signed.isWrite ? mark : nil)
    }

    private func serverKey(
        _ id: String,
        in home: ContainerEnvironment,
        at uptime: Duration
    ) throws(CredentialRefusal) -> KnownServerKey {
        let remembered = try remember(at: uptime) { (memory) throws(CredentialRefusal) in memory.serverKeys[id] }
        if let remembered {
            guard remembered.home == home else { throw .failed }
            return remembered
        }
        let before = memory.withLock { $0.generation }
        let found = try wrapping { () throws(DirectoryError) in try directory.serverKey(id) }
        guard let found, found.home == home, found.revoked == nil,
            let publicKey = try? P256.Signing.PublicKey(pemRepresentation: found.publicKeyPEM)
        else { throw .failed }
        let key = KnownServerKey(home: home, user: found.user, publicKey: publicKey)
        keep(since: before) { $0.serverKeys[id] = key }
        return key
    }
}
