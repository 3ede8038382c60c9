import ChildProcesses
import Testing

#if Postgres
    import PostgresStore
    import Records

    /// The condition of tests that need a server.
    let needsPostgres = ConditionTrait.enabled(if: PostgresServer.isInstalled, "\(PostgresServer.notInstalled)")

    extension ContainerEnvironment {
        static let forTests: ContainerEnvironment = {
            guard let container = ContainerID("iCloud.org.example.one") else { preconditionFailure("a good name") }
            return ContainerEnvironment(container, .development)
        }()
    }

    /// Returns the address of a new, empty database.
    func emptyDatabase() throws -> PostgresAddress { try PostgresAddress(PostgresServer.shared.get().makeDatabase()) }
#else
    @Test(.disabled("built without the trait Postgres; see CONTRIBUTING.md")) func testsOfTheStoreOnPostgreSQL() {}
#endif
