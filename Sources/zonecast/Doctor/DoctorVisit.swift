import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

/// A temporary session and API token in the container `_doctor`, for one check.
struct DoctorVisit {
    let credentials: DoctorCredentials
    private let home: ContainerEnvironment
    private let account: Account.ID
    private let token: APIToken

    init(_ accounts: AccountStore) throws {
        guard let container = ContainerID("_doctor") else { throw DirectoryError.invalid("_doctor is no container") }
        home = ContainerEnvironment(container, .development)
        try accounts.ensureContainer(container)
        // The account has no password, so no one else can sign in with it.
        account = try accounts.devAccount(named: "_doctor").id
        let (text, token) = try accounts.addAPIToken(
            in: home,
            name: "doctor",
            notes: "",
            callbackURL: nil,
            allowedOrigins: []
        )
        self.token = token
        let started = try SignIn.start(
            for: account,
            in: home,
            kind: .brief,
            directory: accounts,
            time: .system,
            random: .system
        )
        credentials = DoctorCredentials(container: container.name, apiToken: text, webToken: started.webToken)
    }

    func end(_ accounts: AccountStore) {
        try? accounts.revokeSessions(of: account, in: home)
        try? accounts.removeAPIToken(token.id)
    }
}
