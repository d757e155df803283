declare <8 x double> @llvm.fma.v8f64(<8 x double>, <8 x double>, <8 x double>)
declare i64 @llvm.smin.i64(i64, i64)
declare <4 x double> @llvm.masked.load.v4f64.p0(ptr, i32, <4 x i1>, <4 x double>)
declare <4 x double> @llvm.fma.v4f64(<4 x double>, <4 x double>, <4 x double>)
declare void @llvm.masked.store.v4f64.p0(<4 x double>, ptr, i32, <4 x i1>)
define void @jaxwarp_generic_scale(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 8
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %a1 = load double, ptr %p1, align 8
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %b0.0 = mul i64 8, %g0
  %b0 = add i64 0, %b0.0
  %b1 = add i64 %b0, 8
  %b2.0 = mul i64 16, %g1
  %b2 = add i64 %b1, %b2.0
  %streams = icmp ugt i64 %b2, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  %v7 = insertelement <8 x double> poison, double %a1, i32 0
  %v8 = shufflevector <8 x double> %v7, <8 x double> poison, <8 x i32> zeroinitializer
  %v33 = insertelement <4 x double> poison, double %a1, i32 0
  %v34 = shufflevector <4 x double> %v33, <4 x double> poison, <4 x i32> zeroinitializer
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v18, %stored13 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr double, ptr %p0, i64 %v3
  %v6 = load <8 x double>, ptr %v5, align 8
  %v9 = call <8 x double> @llvm.fma.v8f64(<8 x double> %v6, <8 x double> %v8, <8 x double> %v6)
  %v10 = getelementptr double, ptr %p2, i64 %v3
  %v14 = ptrtoint ptr %v10 to i64
  %v15 = and i64 %v14, %lines
  %v16 = icmp eq i64 %v15, 0
  br i1 %v16, label %stream11, label %cache12
stream11:
  store <8 x double> %v9, ptr %v10, align 64, !nontemporal !4
  br label %stored13
cache12:
  store <8 x double> %v9, ptr %v10, align 8
  br label %stored13
stored13:
  %v17 = add i64 %v3, 8
  %v18 = call i64 asm "", "=r,0"(i64 %v17)
  %v19 = icmp sle i64 %v18, %last_chunk
  br i1 %v19, label %chunk, label %rest, !llvm.loop !1
rest:
  %v20 = phi i64 [ %col_begin, %row ], [ %v18, %stored13 ]
  %v21 = icmp slt i64 %v20, %col_end
  br i1 %v21, label %partial, label %past
partial:
  br label %part
part:
  %v22 = phi i64 [ %v20, %partial ], [ %v37, %part ]
  %v23 = sub i64 %col_end, %v22
  %v24 = call i64 @llvm.smin.i64(i64 %v23, i64 4)
  %v25 = trunc i64 %v24 to i32
  %v26 = insertelement <4 x i32> poison, i32 %v25, i32 0
  %v27 = shufflevector <4 x i32> %v26, <4 x i32> poison, <4 x i32> zeroinitializer
  %v28 = icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>, %v27
  %v29 = trunc nuw nsw i64 %v22 to i32
  %v30 = getelementptr double, ptr %p0, i64 %v22
  %v31 = call <4 x double> @llvm.masked.load.v4f64.p0(ptr %v30, i32 8, <4 x i1> %v28, <4 x double> zeroinitializer)
  %v32 = freeze <4 x double> %v31
  %v35 = call <4 x double> @llvm.fma.v4f64(<4 x double> %v32, <4 x double> %v34, <4 x double> %v32)
  %v36 = getelementptr double, ptr %p2, i64 %v22
  call void @llvm.masked.store.v4f64.p0(<4 x double> %v35, ptr %v36, i32 8, <4 x i1> %v28)
  %v37 = add i64 %v22, 4
  %v38 = icmp slt i64 %v37, %col_end
  br i1 %v38, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
