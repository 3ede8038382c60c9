#if Postgres
    /// How statements look rows up, so that a plan never reads a whole zone for a few of its records.
    ///
    /// A connection keeps the plan of a statement until the server analyzes a table of it. A plan that was made while a table
    /// was empty, or while most zones had few records, takes the rows of one zone for few, and then reads all of them to find
    /// one by its name. So statements leave no such choice:
    ///
    /// - A table of many rows is joined with `rows(of:where:)`, which evaluates the condition for each row in front of it. The
    ///   condition compares all columns of a key, and contains what a partial index requires, if that index is meant.
    /// - Where it can be avoided, no two indexes of a table begin with the same column, and no condition fits the beginnings of
    ///   two: the planner takes them for equal if it expects a single row.
    /// - `= ANY($1)` compares the first column of an index, and no other one. For another one, `unnest($1)` is joined.
    /// - `DELETE ... USING` and `UPDATE ... FROM` compare the columns of a key with columns of `parameters(_:_:)`.
    ///
    /// `PlanTests` examines the plans of all statements that a store runs in a new database.
    enum LookUp {
        /// Returns an item of `FROM`: the rows of a table for which a condition on items in front of it holds.
        ///
        /// Names in the condition without an alias are columns of the table, if it has them.
        ///
        /// `OFFSET 0` keeps the planner from joining the table in another way.
        static func rows(of table: String, where condition: String) -> String {
            "LATERAL (SELECT * FROM \(table) WHERE \(condition) OFFSET 0)"
        }

        /// Returns an item of `FROM`: the rows of lists of the same length, each with the parameters that are the same for
        /// all, such as the zone, in front.
        ///
        /// The planner must not know that these are constants: it would look for them alone.
        static func parameters(_ constants: String, _ lists: String, as columns: String) -> String {
            "(SELECT \(constants), n.* FROM unnest(\(lists)) AS n (\(columns)) OFFSET 0)"
        }
    }
#endif
