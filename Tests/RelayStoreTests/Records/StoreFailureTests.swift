import GRDB
import Records
import Testing

@testable import RelayStore

@Suite struct StoreFailureTests {
    /// The second is what SQLite says where there is no room for a log's index.
    @Test(arguments: [ResultCode.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE]) func aFullDiskIsToldAsOne(_ code: ResultCode) {
        let told = StoreFailure.relayError(for: DatabaseError(resultCode: code))
        #expect(told.code == .tryAgainLater)
        #expect(told.reason == "The relay's disk is full.")
    }
}
