//! Converts ids and names to columns, as the plain numbers and texts that they hold, and back.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Sqlite, Type};

use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::submission::SubmissionId;

/// Implements a column of the first type through the second: how to take its value out, and how to make it again.
macro_rules! column {
    ($outer:ty as $inner:ty, $value:expr, $make:expr) => {
        impl Type<Sqlite> for $outer {
            fn type_info() -> SqliteTypeInfo {
                <$inner as Type<Sqlite>>::type_info()
            }

            fn compatible(found: &SqliteTypeInfo) -> bool {
                <$inner as Type<Sqlite>>::compatible(found)
            }
        }

        impl<'q> Encode<'q, Sqlite> for $outer {
            fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
                let value: fn(&$outer) -> $inner = $value;
                <$inner as Encode<'q, Sqlite>>::encode(value(self), buffer)
            }
        }

        impl<'r> Decode<'r, Sqlite> for $outer {
            fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
                <$inner as Decode<'r, Sqlite>>::decode(value).map($make)
            }
        }
    };
}

column!(IterationId as i64, |id| id.0, IterationId);
column!(SessionId as i64, |id| id.0, SessionId);
column!(SubmissionId as i64, |id| id.0, SubmissionId);
column!(CaseName as String, |name| name.as_str().to_owned(), CaseName::from);
