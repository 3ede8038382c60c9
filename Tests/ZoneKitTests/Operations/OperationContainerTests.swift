import Testing
import ZoneKit
import ZoneTesting

/// The container of an operation.
@Suite struct OperationContainerTests {
    private let database: CKDatabase

    init() throws { database = try TestRelay().device(of: "alice").privateDatabase }

    @Test func aDatabaseNamesItsContainer() {
        let group = CKOperationGroup()
        group.defaultConfiguration.timeoutIntervalForRequest = 7
        let operation = CKFetchRecordsOperation(recordIDs: [])
        #expect(operation.container == nil && operation.configuration.container == nil)
        operation.group = group
        operation.database = database
        #expect(operation.container?.privateCloudDatabase == database)
        #expect(operation.configuration.container?.privateCloudDatabase == database)
        // Reading the container must not override the group's settings.
        #expect(operation.requestSettings(on: database.session).timeout == .seconds(7))
    }

    @Test func aConfigurationWithoutAContainerKeepsTheDatabasesContainer() {
        let operation = CKFetchRecordsOperation(recordIDs: [])
        operation.database = database
        operation.configuration = CKOperation.Configuration()
        #expect(operation.configuration.container?.privateCloudDatabase == database)
        #expect(operation.resolvedDatabase == database)
    }

    @Test func anOperationInheritsUnsetSettingsFromItsGroup() {
        let group = CKOperationGroup()
        group.defaultConfiguration.timeoutIntervalForRequest = 7
        let operation = CKFetchRecordsOperation(recordIDs: [])
        operation.group = group
        operation.configuration.qualityOfService = .utility
        #expect(operation.requestSettings(on: database.session).timeout == .seconds(7))
        operation.configuration.timeoutIntervalForRequest = 5
        #expect(operation.requestSettings(on: database.session).timeout == .seconds(5))
        operation.timeoutIntervalForRequest = 60
        #expect(operation.requestSettings(on: database.session).timeout == nil, "the default timeout")
    }
}
