declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
define void @jaxwarp_early_return_vjp(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 16
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %b0.0 = mul i64 4, %g0
  %b0 = add i64 0, %b0.0
  %b1.0 = mul i64 8, %g1
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 4, %g2
  %b2 = add i64 %b1, %b2.0
  %streams = icmp ugt i64 %b2, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v52, %stored47 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr float, ptr %p0, i64 %v3
  %v6 = load <16 x float>, ptr %v5, align 4
  %v7 = fcmp olt <16 x float> %v6, splat (float 0xBFF0000000000000)
  %v10 = bitcast <16 x i1> %v7 to i16
  %v11 = icmp ne i16 %v10, 0
  br i1 %v11, label %on8, label %off9
on8:
  %v12 = getelementptr float, ptr %p2, i64 %v3
  call void @llvm.masked.store.v16f32.p0(<16 x float> splat (float 0x0000000000000000), ptr %v12, i32 4, <16 x i1> %v7)
  br label %off9
off9:
  %v13 = phi <16 x float> [ splat (float 0x0000000000000000), %on8 ], [ zeroinitializer, %chunk ]
  %v14 = xor <16 x i1> %v7, splat (i1 true)
  %v17 = bitcast <16 x i1> %v14 to i16
  %v18 = icmp ne i16 %v17, 0
  br i1 %v18, label %on15, label %off16
on15:
  %v19 = fcmp ogt <16 x float> %v6, splat (float 0x3FF0000000000000)
  %v20 = select <16 x i1> %v14, <16 x i1> %v19, <16 x i1> splat (i1 false)
  %v23 = bitcast <16 x i1> %v20 to i16
  %v24 = icmp ne i16 %v23, 0
  br i1 %v24, label %on21, label %off22
on21:
  %v25 = getelementptr float, ptr %p2, i64 %v3
  call void @llvm.masked.store.v16f32.p0(<16 x float> splat (float 0x0000000000000000), ptr %v25, i32 4, <16 x i1> %v20)
  br label %off22
off22:
  %v26 = phi <16 x float> [ splat (float 0x0000000000000000), %on21 ], [ zeroinitializer, %on15 ]
  %v27 = xor <16 x i1> %v19, splat (i1 true)
  %v28 = select <16 x i1> %v14, <16 x i1> %v27, <16 x i1> splat (i1 false)
  %v31 = bitcast <16 x i1> %v28 to i16
  %v32 = icmp ne i16 %v31, 0
  br i1 %v32, label %on29, label %off30
on29:
  %v33 = fcmp ogt <16 x float> %v6, splat (float 0x3FE0000000000000)
  %v34 = getelementptr float, ptr %p2, i64 %v3
  %v35 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v34, i32 4, <16 x i1> %v28, <16 x float> zeroinitializer)
  %v36 = freeze <16 x float> %v35
  call void @llvm.masked.store.v16f32.p0(<16 x float> splat (float 0x0000000000000000), ptr %v34, i32 4, <16 x i1> %v28)
  %v37 = fadd <16 x float> %v6, %v6
  %v38 = fmul <16 x float> %v37, %v36
  %v39 = select <16 x i1> %v33, <16 x float> %v38, <16 x float> %v36
  br label %off30
off30:
  %v40 = phi <16 x float> [ %v39, %on29 ], [ zeroinitializer, %off22 ]
  %v41 = select <16 x i1> %v19, <16 x float> %v26, <16 x float> %v40
  br label %off16
off16:
  %v42 = phi <16 x float> [ %v41, %off30 ], [ zeroinitializer, %off9 ]
  %v43 = select <16 x i1> %v7, <16 x float> %v13, <16 x float> %v42
  %v44 = getelementptr float, ptr %p1, i64 %v3
  %v48 = ptrtoint ptr %v44 to i64
  %v49 = and i64 %v48, %lines
  %v50 = icmp eq i64 %v49, 0
  br i1 %v50, label %stream45, label %cache46
stream45:
  store <16 x float> %v43, ptr %v44, align 64, !nontemporal !4
  br label %stored47
cache46:
  store <16 x float> %v43, ptr %v44, align 4
  br label %stored47
stored47:
  %v51 = add i64 %v3, 16
  %v52 = call i64 asm "", "=r,0"(i64 %v51)
  %v53 = icmp sle i64 %v52, %last_chunk
  br i1 %v53, label %chunk, label %rest, !llvm.loop !1
rest:
  %v54 = phi i64 [ %col_begin, %row ], [ %v52, %stored47 ]
  %v55 = icmp slt i64 %v54, %col_end
  br i1 %v55, label %partial, label %past
partial:
  br label %part
part:
  %v56 = phi i64 [ %v54, %partial ], [ %v107, %off78 ]
  %v57 = sub i64 %col_end, %v56
  %v58 = call i64 @llvm.smin.i64(i64 %v57, i64 8)
  %v59 = trunc i64 %v58 to i32
  %v60 = insertelement <8 x i32> poison, i32 %v59, i32 0
  %v61 = shufflevector <8 x i32> %v60, <8 x i32> poison, <8 x i32> zeroinitializer
  %v62 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v61
  %v63 = trunc nuw nsw i64 %v56 to i32
  %v64 = getelementptr float, ptr %p0, i64 %v56
  %v65 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v64, i32 4, <8 x i1> %v62, <8 x float> zeroinitializer)
  %v66 = freeze <8 x float> %v65
  %v67 = fcmp olt <8 x float> %v66, splat (float 0xBFF0000000000000)
  %v68 = select <8 x i1> %v62, <8 x i1> %v67, <8 x i1> splat (i1 false)
  %v71 = bitcast <8 x i1> %v68 to i8
  %v72 = icmp ne i8 %v71, 0
  br i1 %v72, label %on69, label %off70
on69:
  %v73 = getelementptr float, ptr %p2, i64 %v56
  call void @llvm.masked.store.v8f32.p0(<8 x float> splat (float 0x0000000000000000), ptr %v73, i32 4, <8 x i1> %v68)
  br label %off70
off70:
  %v74 = phi <8 x float> [ splat (float 0x0000000000000000), %on69 ], [ zeroinitializer, %part ]
  %v75 = xor <8 x i1> %v67, splat (i1 true)
  %v76 = select <8 x i1> %v62, <8 x i1> %v75, <8 x i1> splat (i1 false)
  %v79 = bitcast <8 x i1> %v76 to i8
  %v80 = icmp ne i8 %v79, 0
  br i1 %v80, label %on77, label %off78
on77:
  %v81 = fcmp ogt <8 x float> %v66, splat (float 0x3FF0000000000000)
  %v82 = select <8 x i1> %v76, <8 x i1> %v81, <8 x i1> splat (i1 false)
  %v85 = bitcast <8 x i1> %v82 to i8
  %v86 = icmp ne i8 %v85, 0
  br i1 %v86, label %on83, label %off84
on83:
  %v87 = getelementptr float, ptr %p2, i64 %v56
  call void @llvm.masked.store.v8f32.p0(<8 x float> splat (float 0x0000000000000000), ptr %v87, i32 4, <8 x i1> %v82)
  br label %off84
off84:
  %v88 = phi <8 x float> [ splat (float 0x0000000000000000), %on83 ], [ zeroinitializer, %on77 ]
  %v89 = xor <8 x i1> %v81, splat (i1 true)
  %v90 = select <8 x i1> %v76, <8 x i1> %v89, <8 x i1> splat (i1 false)
  %v93 = bitcast <8 x i1> %v90 to i8
  %v94 = icmp ne i8 %v93, 0
  br i1 %v94, label %on91, label %off92
on91:
  %v95 = fcmp ogt <8 x float> %v66, splat (float 0x3FE0000000000000)
  %v96 = getelementptr float, ptr %p2, i64 %v56
  %v97 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v96, i32 4, <8 x i1> %v90, <8 x float> zeroinitializer)
  %v98 = freeze <8 x float> %v97
  call void @llvm.masked.store.v8f32.p0(<8 x float> splat (float 0x0000000000000000), ptr %v96, i32 4, <8 x i1> %v90)
  %v99 = fadd <8 x float> %v66, %v66
  %v100 = fmul <8 x float> %v99, %v98
  %v101 = select <8 x i1> %v95, <8 x float> %v100, <8 x float> %v98
  br label %off92
off92:
  %v102 = phi <8 x float> [ %v101, %on91 ], [ zeroinitializer, %off84 ]
  %v103 = select <8 x i1> %v81, <8 x float> %v88, <8 x float> %v102
  br label %off78
off78:
  %v104 = phi <8 x float> [ %v103, %off92 ], [ zeroinitializer, %off70 ]
  %v105 = select <8 x i1> %v67, <8 x float> %v74, <8 x float> %v104
  %v106 = getelementptr float, ptr %p1, i64 %v56
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v105, ptr %v106, i32 4, <8 x i1> %v62)
  %v107 = add i64 %v56, 8
  %v108 = icmp slt i64 %v107, %col_end
  br i1 %v108, label %part, label %parts_done, !llvm.loop !1
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
