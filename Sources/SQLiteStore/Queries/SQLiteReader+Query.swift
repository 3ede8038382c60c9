import GRDB
import Records
import RelayCore
import StoreKit

extension SQLiteReader {
    func page(
        of query: Query,
        in zones: [Zone],
        after position: Query.Position?,
        limit: Int,
        bytes: Int
    ) throws(RelayError) -> QueryPage {
        guard let number = names.number(ofType: query.recordType), let type = try schema.queryable(query.recordType)
        else { return QueryPage(records: [], next: nil) }
        return try attempt {
            try QueryTimeLimit.limited(to: queryWork.tuning.longestRun, on: database) {
                try queryWork.page(
                    of: query,
                    type: (number, type),
                    in: zones,
                    after: position,
                    limit: limit,
                    bytes: bytes,
                    reading: self
                )
            }
        }
    }
}
